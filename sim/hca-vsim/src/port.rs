/// 512 bits, least significant word first.
pub type Beat = [u32; 16];

/// An input port. Lives inside its [`crate::Dut`], which hands out no references to the model's memory.
#[repr(transparent)]
pub struct In<T>(*mut T);

/// An output port.
#[repr(transparent)]
pub struct Out<T>(*const T);

impl<T: Copy> In<T> {
    /// Sets the value for the next evaluation.
    #[inline(always)]
    pub fn set(&self, value: T) {
        // SAFETY: the pointer is into the model that the owning Dut keeps alive; no reference to it exists,
        // and Dut is not Sync.
        unsafe { self.0.write(value) }
    }

    /// The value last set.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: as in `set`; T is an integer or an array of them.
        unsafe { self.0.read() }
    }
}

impl<T: Copy> Out<T> {
    /// The value after the last evaluation.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: as in `In::set`.
        unsafe { self.0.read() }
    }
}
