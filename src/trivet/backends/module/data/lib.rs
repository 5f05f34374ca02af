//! NAME, a neural network. One instance at a time: its memory is static.
#![no_std]

use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::MaybeUninit;

/// As large as the module's context on every machine with pointers of 64 bits or less.
#[repr(C, align(8))]
struct Context([MaybeUninit<u8>; 128]);

extern "C" {
    fn PREFIX_init(context: *mut Context) -> c_int;
    fn PREFIX_reset(context: *mut Context) -> c_int;
    fn PREFIX_run(context: *mut Context) -> c_int;
    fn PREFIX_input(context: *mut Context, index: u32) -> *mut c_void;
    fn PREFIX_output(context: *const Context, index: u32) -> *const c_void;
    fn PREFIX_input_port(index: u32) -> *const Port;
    fn PREFIX_output_port(index: u32) -> *const Port;
    fn PREFIX_status_text(status: c_int) -> *const c_char;
}

/// An input or output: real = scale * (stored - zero_point).
#[repr(C)]
pub struct Port {
    name: *const c_char,
    pub dtype: c_int,
    pub rank: u32,
    pub shape: [u32; 8],
    pub bytes: u32,
    pub scale: f32,
    pub zero_point: i32,
}

/// What went wrong; the text is English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(pub i32);

impl Error {
    pub fn text(&self) -> &'static str {
        unsafe { CStr::from_ptr(PREFIX_status_text(self.0)).to_str().unwrap_or("unknown status") }
    }
}

/// The network. Only one may exist at a time.
pub struct Network(Context);

fn checked(status: c_int) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error(status)) }
}

impl Network {
    /// # Safety
    /// All instances share one static memory: no other may be in use.
    pub unsafe fn new() -> Result<Self, Error> {
        let mut context = Context([MaybeUninit::uninit(); 128]);
        checked(PREFIX_init(&mut context))?;
        Ok(Network(context))
    }

    /// States get their initial values.
    pub fn reset(&mut self) -> Result<(), Error> {
        checked(unsafe { PREFIX_reset(&mut self.0) })
    }

    /// The bytes of an input; write them before every run.
    pub fn input(&mut self, index: u32) -> Option<&mut [u8]> {
        unsafe {
            let port = PREFIX_input_port(index).as_ref()?;
            let data = PREFIX_input(&mut self.0, index) as *mut u8;
            if data.is_null() { None } else { Some(core::slice::from_raw_parts_mut(data, port.bytes as usize)) }
        }
    }

    pub fn run(&mut self) -> Result<(), Error> {
        checked(unsafe { PREFIX_run(&mut self.0) })
    }

    /// The bytes of an output, valid until the next run.
    pub fn output(&self, index: u32) -> Option<&[u8]> {
        unsafe {
            let port = PREFIX_output_port(index).as_ref()?;
            let data = PREFIX_output(&self.0, index) as *const u8;
            if data.is_null() { None } else { Some(core::slice::from_raw_parts(data, port.bytes as usize)) }
        }
    }
}

pub const TRIVET_UPPER: &str = "VERSION";
