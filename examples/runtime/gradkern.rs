//! Rust's view of the C interface, runtime/include/gradkern/gradkern.h: what a program needs, written by hand.
#![allow(dead_code)]

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::null_mut;

pub const F32: i32 = 0;
pub const CONVOLUTION: i32 = 0;
pub const CONVOLUTION_BACKWARD_DATA: i32 = 1;
pub const CONVOLUTION_BACKWARD_WEIGHTS: i32 = 2;
pub const AVG_POOL_BACKWARD: i32 = 8;
pub const NXC: i32 = 0;
pub const NCX: i32 = 1;
pub const OIX: i32 = 1;

/// Up to three numbers, one per spatial axis.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct List {
    pub count: i64,
    pub values: [i64; 3],
}

impl List {
    pub fn of(numbers: &[i64]) -> List {
        let mut values = [0; 3];
        values[..numbers.len()].copy_from_slice(numbers);
        List { count: numbers.len() as i64, values }
    }
}

/// Type, shape and strides, in elements, of a tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Tensor {
    pub element_type: i32,
    pub rank: i32,
    pub shape: [i64; 5],
    pub has_strides: i32,
    pub reserved: i32,
    pub strides: [i64; 5],
}

impl Tensor {
    pub fn dense(element_type: i32, sizes: &[i64]) -> Tensor {
        let mut shape = [0; 5];
        shape[..sizes.len()].copy_from_slice(sizes);
        Tensor { element_type, rank: sizes.len() as i32, shape, has_strides: 0, reserved: 0, strides: [0; 5] }
    }
}

#[repr(C)]
pub struct Problem {
    size: usize,
    op: i32,
    pub data_format: i32,
    pub weights_format: i32,
    pub auto_pad: i32,
    pub tensors: [Tensor; 4],
    pub kernel: List,
    pub strides: List,
    pub dilations: List,
    pub pads_begin: List,
    pub pads_end: List,
    pub output_padding: List,
    pub groups: i64,
    pub rounding: i32,
    pub exclude_pad: i32,
    pub has_divisor_override: i32,
    pub ignore_nan: i32,
    pub divisor_override: i64,
    pub index_base: i32,
    pub indices_are_column_major: i32,
    pub output: i32,
    pub precision: i32,
    pub summation: i32,
    pub least_scratch: i32,
    pub algorithm: *const c_char,
}

impl Problem {
    pub fn new(op: i32) -> Problem {
        unsafe {
            let mut problem: Problem = std::mem::zeroed();
            gradkern_problem_init(&mut problem, std::mem::size_of::<Problem>(), op);
            problem
        }
    }
}

#[repr(C)]
pub struct Error {
    pub code: i32,
    pub axis: i32,
    pub got: i64,
    pub expected: i64,
    op: [c_char; 48],
    argument: [c_char; 32],
    message: [c_char; 400],
}

/// The message of a call that failed.
fn checked(code: c_int, error: &Error) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    Err(unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned())
}

/// The address of a tensor.
pub enum Address<'a> {
    Input(&'a [f32]),
    Output(&'a mut [f32]),
    Absent,
}

/// A plan, which frees itself. Threads may share it.
pub struct Plan(*mut c_void, Vec<u8>);

impl Plan {
    pub fn new(problem: &Problem) -> Result<Plan, String> {
        unsafe {
            let mut error: Error = std::mem::zeroed();
            let mut plan = null_mut();
            let code = gradkern_plan_create(problem, &mut plan, &mut error, std::mem::size_of::<Error>());
            checked(code, &error)?;
            Ok(Plan(plan, vec![0; gradkern_plan_workspace_bytes(plan, 1)]))
        }
    }

    /// Slices must be as long as the problem's tensors.
    pub fn run(&mut self, tensors: &mut [Address]) -> Result<(), String> {
        let mut addresses: Vec<*mut c_void> = Vec::new();
        for tensor in tensors {
            addresses.push(match tensor {
                Address::Input(values) => values.as_ptr() as *mut c_void,
                Address::Output(values) => values.as_mut_ptr() as *mut c_void,
                Address::Absent => null_mut(),
            });
        }
        unsafe {
            let mut error: Error = std::mem::zeroed();
            let code = gradkern_plan_run(
                self.0,
                addresses.as_ptr(),
                addresses.len(),
                self.1.as_mut_ptr() as *mut c_void,
                self.1.len(),
                std::ptr::null(),
                &mut error,
                std::mem::size_of::<Error>(),
            );
            checked(code, &error)
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        unsafe { gradkern_plan_destroy(self.0) }
    }
}

/// The instruction set in use.
pub fn isa() -> String {
    unsafe { CStr::from_ptr(gradkern_isa()) }.to_string_lossy().into_owned()
}

extern "C" {
    fn gradkern_problem_init(problem: *mut Problem, size: usize, op: i32);
    fn gradkern_plan_create(p: *const Problem, plan: *mut *mut c_void, error: *mut Error, size: usize) -> c_int;
    fn gradkern_plan_workspace_bytes(plan: *const c_void, workers: i64) -> usize;
    fn gradkern_plan_run(
        plan: *const c_void,
        tensors: *const *mut c_void,
        count: usize,
        workspace: *mut c_void,
        workspace_bytes: usize,
        executor: *const c_void,
        error: *mut Error,
        error_size: usize,
    ) -> c_int;
    fn gradkern_plan_destroy(plan: *mut c_void);
    fn gradkern_isa() -> *const c_char;
}
