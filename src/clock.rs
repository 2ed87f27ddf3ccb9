//! The only room that names a clock. Read once per wake; the text of Date is formatted once a second.
//!
//! Deadlines are measured on the monotonic clock. The wall clock is asked when the monotonic one
//! says that a second has passed, so a step of the wall clock shows within a second.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use httpdate::HttpDate;

/// Bytes of an IMF-fixdate (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_LEN: usize = 29;

/// The text of an IMF-fixdate.
pub type Date = [u8; DATE_LEN];

/// Seconds after 1970 at which the year 10000 begins, which an IMF-fixdate cannot say.
const YEAR_10000_S: u64 = 253_402_300_800;

const SECOND: Duration = Duration::from_secs(1);

/// Bytes of a time in a log: `06/Nov/1994:08:49:37 +0000`.
pub const COMMON_LEN: usize = 26;

/// Bytes of a time of ISO 8601 without its zone: `1994-11-06T08:49:37`.
pub const ISO_LEN: usize = 19;

/// What is stamped into a head as it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dates {
    /// For a Date field.
    pub date: Date,
    /// For an Expires field, where there is one.
    pub expires: Date,
}

/// What time it is, as of the last tick.
#[derive(Debug)]
pub struct Clock {
    now: Instant,
    dates: Dates,
    dates_until: Instant,
    lifetime: Duration,
}

impl Clock {
    /// A clock that has ticked once.
    pub fn start() -> Self {
        Self::with_lifetime(Duration::ZERO)
    }

    /// The same, for responses that expire after `lifetime`.
    pub fn with_lifetime(lifetime: Duration) -> Self {
        let now = Instant::now();
        let blank = [b' '; DATE_LEN];
        let dates = Dates { date: blank, expires: blank };
        let mut clock = Self { now, dates, dates_until: now, lifetime };
        clock.stamp_dates();
        clock
    }

    /// Reads the monotonic clock, and the wall clock where the second is over.
    pub fn tick(&mut self) {
        self.now = Instant::now();
        if self.now >= self.dates_until {
            self.stamp_dates();
        }
    }

    /// The monotonic time of the last tick.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What is stamped into heads.
    pub fn dates(&self) -> &Dates {
        &self.dates
    }

    /// Milliseconds of the second that [`Clock::dates`] is in.
    pub fn millis(&self) -> u16 {
        let rest = self.dates_until.saturating_duration_since(self.now);
        let gone = SECOND.saturating_sub(rest);
        // The next one begins with the next tick.
        gone.as_millis().min(999) as u16
    }

    /// The year that it is.
    pub fn year(&self) -> u16 {
        self.dates.date[12..16].iter().fold(0, |year, digit| year * 10 + u16::from(digit - b'0'))
    }

    /// The wall clock, read anew: for the slow paths that compare with a file's times.
    pub fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn stamp_dates(&mut self) {
        let wall = SystemTime::now();
        let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let or_epoch = |date: Option<Date>| date.unwrap_or(*b"Thu, 01 Jan 1970 00:00:00 GMT");
        self.dates.date = or_epoch(imf_fixdate(wall));
        self.dates.expires = or_epoch(wall.checked_add(self.lifetime).and_then(imf_fixdate));
        let rest_of_second = SECOND - Duration::from_nanos(since_epoch.subsec_nanos().into());
        self.dates_until = self.now + rest_of_second;
    }
}

/// A stretch of time within a turn, for work that must not make it long.
#[derive(Debug)]
pub struct Stretch {
    ends: Instant,
}

impl Stretch {
    /// One that begins now, not with the last tick.
    pub fn of(length: Duration) -> Self {
        Self { ends: Instant::now() + length }
    }

    /// Whether it is over. Reads the clock.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }
}

/// `date` as the Common Log Format has it; an IMF-fixdate is in UTC.
pub fn common(date: &Date) -> [u8; COMMON_LEN] {
    let mut text = *b"../.../....:........ +0000";
    for (to, from) in [(0, 5..7), (3, 8..11), (7, 12..16), (12, 17..25)] {
        text[to..to + from.len()].copy_from_slice(&date[from]);
    }
    text
}

/// `date` as RFC 3339 has it, without its zone.
pub fn iso(date: &Date) -> [u8; ISO_LEN] {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.chunks(3).position(|name| *name == date[8..11]).map_or(1, |at| at as u8 + 1);
    let mut text = *b"....-..-..T........";
    text[5..7].copy_from_slice(&[b'0' + month / 10, b'0' + month % 10]);
    for (to, from) in [(0, 12..16), (8, 5..7), (11, 17..25)] {
        text[to..to + from.len()].copy_from_slice(&date[from]);
    }
    text
}

/// `time` as an IMF-fixdate, cut to the second; `None` before 1970 and after the year 9999.
pub fn imf_fixdate(time: SystemTime) -> Option<Date> {
    let since_epoch = time.duration_since(UNIX_EPOCH).ok()?;
    if since_epoch.as_secs() >= YEAR_10000_S {
        return None;
    }
    let mut date = [0; DATE_LEN];
    write!(&mut date[..], "{}", HttpDate::from(time)).ok()?;
    Some(date)
}

/// Reads an HTTP-date in any of its three forms (RFC 9110 §5.6.7); `None` for what is none.
///
/// The two digits of a year in RFC 850's form mean the year that is at most 50 years ahead of
/// `this_year`.
pub fn parse_http_date(text: &[u8], this_year: u16) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?;
    let canonical =
        from_rfc850(text, this_year).or_else(|| from_asctime(text)).unwrap_or_else(|| text.to_owned());
    let time = httpdate::parse_http_date(&canonical).ok()?;
    // The crate forgives what it does not look at, such as a letter for a space.
    (imf_fixdate(time)?.as_slice() == canonical.as_bytes()).then_some(time)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT` → `Sun, 06 Nov 1994 08:49:37 GMT`.
fn from_rfc850(text: &str, this_year: u16) -> Option<String> {
    let (weekday, rest) = text.split_once(", ")?;
    let is_weekday =
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"].contains(&weekday);
    let (date, time) = rest.split_once(' ')?;
    let mut parts = date.split('-');
    let (day, month, digits, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let is_two_digits = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_weekday || !is_two_digits {
        return None;
    }
    let this_century = this_year / 100 * 100 + digits.parse::<u16>().ok()?;
    let year = if this_century > this_year + 50 { this_century - 100 } else { this_century };
    Some(format!("{}, {day} {month} {year} {time}", &weekday[..3]))
}

/// `Sun Nov  6 08:49:37 1994` → `Sun, 06 Nov 1994 08:49:37 GMT`.
fn from_asctime(text: &str) -> Option<String> {
    let is_asctime = text.is_ascii() && text.len() == "Sun Nov  6 08:49:37 1994".len() && !text.contains(',');
    let spaces = [3, 7, 10, 19].iter().all(|&at| text.as_bytes().get(at) == Some(&b' '));
    if !is_asctime || !spaces {
        return None;
    }
    let (weekday, month, day) = (&text[..3], &text[4..7], &text[8..10]);
    // Only a blank before the day stands for a digit.
    let day = day.strip_prefix(' ').map_or_else(|| day.to_owned(), |digit| format!("0{digit}"));
    Some(format!("{weekday}, {day} {month} {} {} GMT", &text[20..], &text[11..19]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One instant per day over 400 years, the whole cycle of the Gregorian calendar, against a
    /// calendar that counts days one by one.
    #[test]
    fn every_day_of_400_years() {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        let (mut year, mut month, mut day) = (1970u64, 0usize, 1u64);
        for days in 0..146_097u64 {
            let second = days * 7919 % 86_400;
            let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
            let expected = format!(
                "{}, {day:02} {} {year:04} {h:02}:{m:02}:{s:02} GMT",
                WEEKDAYS[days as usize % 7],
                MONTHS[month]
            );
            let in_a_log = format!("{day:02}/{}/{year:04}:{h:02}:{m:02}:{s:02} +0000", MONTHS[month]);
            let iso = format!("{year:04}-{:02}-{day:02}T{h:02}:{m:02}:{s:02}", month + 1);
            let time = UNIX_EPOCH + Duration::from_secs(days * 86_400 + second);
            let date = imf_fixdate(time).unwrap();
            assert_eq!(std::str::from_utf8(&date).unwrap(), expected);
            assert_eq!(std::str::from_utf8(&common(&date)).unwrap(), in_a_log);
            assert_eq!(std::str::from_utf8(&self::iso(&date)).unwrap(), iso);

            let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            let month_days = match month {
                1 => 28 + u64::from(is_leap),
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            day += 1;
            if day > month_days {
                (day, month) = (1, month + 1);
            }
            if month == 12 {
                (month, year) = (0, year + 1);
            }
        }
        assert_eq!((year, month, day), (2370, 0, 1));
    }

    #[test]
    fn times_that_no_date_can_say() {
        assert_eq!(imf_fixdate(UNIX_EPOCH - Duration::from_nanos(1)), None);
        assert_eq!(imf_fixdate(UNIX_EPOCH + Duration::from_secs(YEAR_10000_S)), None);
        let last = UNIX_EPOCH + Duration::from_secs(YEAR_10000_S - 1);
        assert_eq!(imf_fixdate(last), Some(*b"Fri, 31 Dec 9999 23:59:59 GMT"));
    }

    #[test]
    fn the_date_moves_when_its_second_is_over() {
        let mut clock = Clock::with_lifetime(Duration::from_secs(30));
        clock.dates.date = [b'-'; DATE_LEN];
        clock.dates_until = clock.now() + Duration::from_secs(3600);
        clock.tick();
        assert_eq!(clock.dates().date, [b'-'; DATE_LEN], "nothing is formatted within the second");
        clock.dates_until = clock.now();
        clock.tick();
        let Dates { date, expires } = clock.dates();
        let year = clock.year();
        let [date, expires] = [date, expires].map(|text| parse_http_date(text, year).unwrap());
        assert_eq!(expires, date + Duration::from_secs(30));
        assert!(clock.dates_until > clock.now() && clock.dates_until <= clock.now() + Duration::from_secs(1));
    }

    #[test]
    fn milliseconds_are_what_has_gone_by_of_the_second() {
        let mut clock = Clock::start();
        for (rest_us, millis) in
            [(1_000_000, 0), (999_999, 0), (958_000, 42), (1_500, 998), (999, 999), (0, 999)]
        {
            clock.dates_until = clock.now + Duration::from_micros(rest_us);
            assert_eq!(clock.millis(), millis, "{rest_us}");
        }
        assert!(clock.millis() < 1000);
    }

    #[test]
    fn the_three_forms_of_a_date() {
        // RFC 9110 §5.6.7
        let example = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_http_date(text.as_bytes(), 2026), Some(example), "{text}");
        }
        for text in [
            "",
            "784111777",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1999 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sunday, 06-Nov-9x 08:49:37 GMT",
            "Sunday, 06-Nov-94-1 08:49:37 GMT",
            "Sunday, 06-Nov-94\"08:49:37 GMT",
            "Sun,x06 Nov 1994 08:49:37 GMT",
            "Sun, 06xNov 1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Thu Nov 1  08:49:37 1994",
            "Sun Nov  6 08:49:37x1994",
            "Sun Nov  6 08:49:37 1994 ",
            "Mon Nov  6 08:49:37 1994",
            "\u{661}\u{662}, \u{663}",
        ] {
            assert_eq!(parse_http_date(text.as_bytes(), 2026), None, "{text}");
        }
        assert_eq!(parse_http_date(b"\xff", 2026), None);
    }

    /// RFC 9110 §5.6.7: what appears to be more than 50 years ahead is in the past.
    #[test]
    fn two_digit_years() {
        for (this_year, digits, year) in [
            (2026, "26", 2026),
            (2026, "76", 2076),
            (2026, "77", 1977),
            (2026, "99", 1999),
            (2026, "00", 2000),
            (2060, "05", 2005),
        ] {
            let as_imf = from_rfc850(&format!("Sunday, 06-Nov-{digits} 08:49:37 GMT"), this_year);
            assert_eq!(as_imf, Some(format!("Sun, 06 Nov {year} 08:49:37 GMT")));
        }
    }

    #[test]
    fn the_year_is_the_dates() {
        let mut clock = Clock::start();
        clock.dates.date = *b"Fri, 31 Dec 2026 23:59:59 GMT";
        assert_eq!(clock.year(), 2026);
    }
}
