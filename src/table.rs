//! The open connections, each under a token that is never given to another.
//!
//! A token is an index and a generation, so an event, a deadline or a place on the ready list that
//! outlives its connection meets nobody.

use mio::Token;

const INDEX_BITS: u32 = 32;

// A token holds an index and a generation of 32 bits each.
const _: () = assert!(usize::BITS == 2 * INDEX_BITS);

/// The place of what is, or was, under `token`.
pub fn place_of(token: Token) -> u32 {
    token.0 as u32
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values under tokens.
#[derive(Debug)]
pub struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Puts `value` in; its token is new.
    pub fn insert(&mut self, value: T) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        assert!(place.value.is_none(), "a free place is empty");
        place.value = Some(value);
        Token((place.generation as usize) << INDEX_BITS | index as usize)
    }

    /// The value under `token`, unless it was removed.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.place(token)?.value.as_mut()
    }

    /// Removes the value under `token`.
    pub fn remove(&mut self, token: Token) -> Option<T> {
        let place = self.place(token)?;
        let value = place.value.take()?;
        // After 2³² tenants of one place a token comes again; the last generation is never given, so
        // that no token equals those that the loop keeps for itself.
        place.generation = (place.generation + 1) % u32::MAX;
        self.free.push(token.0 as u32);
        Some(value)
    }

    /// How many values are in.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The token of the value that stands at this place now.
    pub fn at(&self, place: u32) -> Option<Token> {
        let Place { generation, value } = self.places.get(place as usize)?;
        value.as_ref()?;
        Some(Token((*generation as usize) << INDEX_BITS | place as usize))
    }

    /// All values, and their tokens.
    pub fn iter(&self) -> impl Iterator<Item = (Token, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let token = Token((place.generation as usize) << INDEX_BITS | index);
            place.value.as_ref().map(|value| (token, value))
        })
    }

    /// The tokens of all values.
    pub fn tokens(&self) -> Vec<Token> {
        self.iter().map(|(token, _)| token).collect()
    }

    fn place(&mut self, token: Token) -> Option<&mut Place<T>> {
        let place = self.places.get_mut(token.0 as u32 as usize)?;
        (place.generation == (token.0 >> INDEX_BITS) as u32).then_some(place)
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_reaches_the_next_tenant_of_its_place() {
        let mut table = Table::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!(first.0 as u32, second.0 as u32, "the place is used again");
        assert_ne!(first, second);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(second), Some(&mut "second"));
        assert_eq!((table.len(), table.tokens()), (1, vec![second]));
    }

    #[test]
    fn generations_go_round_without_the_last() {
        let mut table = Table::new();
        let token = table.insert(());
        table.places[0].generation = u32::MAX - 1;
        assert_eq!(table.get_mut(token), None);
        let token = table.tokens()[0];
        table.remove(token);
        assert_eq!(table.places[0].generation, 0);
        assert!(table.is_empty());
    }
}
