//! The gradients of a convolution from Rust: they are compared with plain loops.
//!
//!     rustc -O main.rs -L PREFIX/lib -l static=gradkern -l stdc++

mod gradkern;

use gradkern::{Address, List, Plan, Problem, Tensor};

const N: usize = 2;
const C: usize = 3;
const K: usize = 5;
const H: usize = 6;
const W: usize = 7;

/// Small integers, whose sums are exact.
fn numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|i| (i * step % 11) as f32 - 5.0).collect()
}

/// Calls f(image, output channel, input channel, y, x, tap) for every product of a 3x3 convolution with pads of 1.
fn each_product(mut f: impl FnMut(usize, usize, usize)) {
    for (n, k, c) in (0..N).flat_map(|n| (0..K).flat_map(move |k| (0..C).map(move |c| (n, k, c)))) {
        for (y, x, tap) in (0..H).flat_map(|y| (0..W).flat_map(move |x| (0..9).map(move |t| (y, x, t)))) {
            let (from_y, from_x) = (y + tap / 3, x + tap % 3);
            if (1..=H).contains(&from_y) && (1..=W).contains(&from_x) {
                let src = ((n * C + c) * H + from_y - 1) * W + from_x - 1;
                f(src, (k * C + c) * 9 + tap, ((n * K + k) * H + y) * W + x);
            }
        }
    }
}

fn problem(op: i32, shapes: [&[i64]; 3]) -> Problem {
    let mut p = Problem::new(op);
    p.data_format = gradkern::NCX;
    p.weights_format = gradkern::OIX;
    p.strides = List::of(&[1, 1]);
    p.dilations = p.strides;
    p.pads_begin = p.strides;
    p.pads_end = p.strides;
    for (i, shape) in shapes.iter().enumerate() {
        p.tensors[i] = Tensor::dense(gradkern::F32, shape);
    }
    p
}

fn main() -> Result<(), String> {
    let src_shape: &[i64] = &[N as i64, C as i64, H as i64, W as i64];
    let dst_shape: &[i64] = &[N as i64, K as i64, H as i64, W as i64];
    let weights_shape: &[i64] = &[K as i64, C as i64, 3, 3];
    let src = numbers(N * C * H * W, 7);
    let weights = numbers(K * C * 9, 5);
    let diff_dst = numbers(N * K * H * W, 3);

    let mut diff_src = vec![f32::NAN; src.len()];
    let data = problem(gradkern::CONVOLUTION_BACKWARD_DATA, [dst_shape, weights_shape, src_shape]);
    Plan::new(&data)?.run(&mut [
        Address::Input(&diff_dst),
        Address::Input(&weights),
        Address::Output(&mut diff_src),
    ])?;

    let mut diff_weights = vec![f32::NAN; weights.len()];
    let gradient = problem(gradkern::CONVOLUTION_BACKWARD_WEIGHTS, [src_shape, dst_shape, weights_shape]);
    Plan::new(&gradient)?.run(&mut [
        Address::Input(&src),
        Address::Input(&diff_dst),
        Address::Output(&mut diff_weights),
        Address::Absent,
    ])?;

    let mut expected_src = vec![0.0; src.len()];
    let mut expected_weights = vec![0.0; weights.len()];
    each_product(|s, w, d| {
        expected_src[s] += diff_dst[d] * weights[w];
        expected_weights[w] += src[s] * diff_dst[d];
    });
    assert_eq!(diff_src, expected_src);
    assert_eq!(diff_weights, expected_weights);

    let mut wrong = problem(gradkern::CONVOLUTION_BACKWARD_DATA, [dst_shape, weights_shape, src_shape]);
    wrong.strides = List::of(&[1, 0]);
    let message = Plan::new(&wrong).err().expect("a stride of 0 is refused");
    println!("{}: gradients of data and weights are right; a stride of 0: {message}", gradkern::isa());
    Ok(())
}
