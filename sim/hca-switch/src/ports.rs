//! The ports of a switch, by their numbers.

use std::ops::{Deref, DerefMut};

use crate::SwitchError;

/// Ports 1, 2, ... of a switch, each with or without a cable. As a slice: by number less 1.
pub(crate) struct Ports<P> {
    switch: String,
    ports: Vec<Option<P>>,
}

impl<P> Ports<P> {
    /// `count` ports without cables.
    pub fn new(switch: &str, count: u8) -> Self {
        Self {
            switch: switch.to_owned(),
            ports: (0..count).map(|_| None).collect(),
        }
    }

    /// Place of a port in the slice.
    pub fn index(&self, port: u8) -> Result<usize, SwitchError> {
        let index = usize::from(port).checked_sub(1);
        index
            .filter(|index| *index < self.ports.len())
            .ok_or_else(|| SwitchError::NoPort {
                switch: self.switch.clone(),
                port,
                ports: self.ports.len() as u8,
            })
    }

    /// A port that has a cable.
    pub fn get(&self, port: u8) -> Option<&P> {
        self.ports.get(usize::from(port).checked_sub(1)?)?.as_ref()
    }

    /// A port that has a cable, to change.
    pub fn get_mut(&mut self, port: u8) -> Option<&mut P> {
        self.ports.get_mut(usize::from(port).checked_sub(1)?)?.as_mut()
    }

    /// True where a port has a cable.
    pub fn is_taken(&self, port: u8) -> Result<bool, SwitchError> {
        Ok(self.ports[self.index(port)?].is_some())
    }

    /// Plugs a cable in.
    pub fn attach(&mut self, port: u8, end: P) -> Result<(), SwitchError> {
        let index = self.index(port)?;
        self.ports[index] = Some(end);
        Ok(())
    }
}

impl<P> Deref for Ports<P> {
    type Target = [Option<P>];

    fn deref(&self) -> &Self::Target {
        &self.ports
    }
}

impl<P> DerefMut for Ports<P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ports
    }
}
