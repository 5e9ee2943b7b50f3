# %% [markdown]
# # Is my kernel right?
#
# Three kernels for the data gradient of a 3x3 convolution, written in PyTorch: one is right, one forgets that images end,
# one adds in bf16. No tolerance is guessed: every element has a bound of its own, from the sum of its absolute terms. Cells
# begin with `# %%`: run them one by one in an editor that knows such cells, or the file as a program.

# %%
import gradkern
import torch

N, I, O, H, W = 2, 8, 16, 12, 10
LAYER = dict(strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), data_format="ncx", weights_format="oix")

# Numbers that bring out mistakes: the same ones on every machine.
diff_dst = gradkern.fill(torch.empty(N, O, H, W), "uniform", seed=1)
weights = gradkern.fill(torch.empty(O, I, 3, 3), "uniform", seed=2, operand=1)

# %% [markdown]
# ## The kernels
#
# Tap (a, b) of the window adds the product of its weights and of `diff_dst`, shifted by (a - 1, b - 1).


# %%
def shifted(dy, a, b):
    """dy[..., y - a, x - b], with zeros from beyond the edges."""
    padded = torch.nn.functional.pad(dy, (1, 1, 1, 1))
    return padded[:, :, 1 - a : 1 - a + H, 1 - b : 1 - b + W]


def by_shifts(dy, w):
    taps = [(a, b) for a in range(3) for b in range(3)]
    return sum(torch.einsum("noyx,oi->niyx", shifted(dy, a - 1, b - 1), w[:, :, a, b]) for a, b in taps)


def by_rolls(dy, w):
    """The mistake: torch.roll brings back on one side what leaves on the other."""
    taps = [(a, b) for a in range(3) for b in range(3)]
    return sum(torch.einsum("noyx,oi->niyx", dy.roll((a - 1, b - 1), (2, 3)), w[:, :, a, b]) for a, b in taps)


def in_bf16(dy, w):
    """Another one: sums of 16 bits."""
    return by_shifts(dy.bfloat16(), w.bfloat16()).float()


# %% [markdown]
# ## The verdicts


# %%
def judge(kernel):
    result = kernel(diff_dst, weights)
    # The kernel adds all O * 9 products one by one, in whatever order: a term meets so many roundings at most.
    return gradkern.compare(result, gradkern.convolution_backward_data, diff_dst, weights, **LAYER, roundings=O * 9)


reports = {kernel.__name__: judge(kernel) for kernel in (by_shifts, by_rolls, in_bf16)}
for name, report in reports.items():
    print(f"--- {name}\n{report}")

# %% [markdown]
# ## Where is the mistake?
#
# The worst elements of `by_rolls` lie on the edges. The bounds of all elements show it for the whole tensor: how many elements
# of each pixel are wrong?

# %%
expected, bound = gradkern.bounds(gradkern.convolution_backward_data, diff_dst, weights, **LAYER)
error = abs(by_rolls(diff_dst, weights).double().numpy() - expected)
wrong = error > O * 9 * bound  # more than any order of the sums explains
print("elements of by_rolls that are wrong, by row and column:")
print(wrong.sum(axis=(0, 1)))

# %% [markdown]
# gradkern's own result is right, and `exact` is as near as f32 can be.

# %%
own = gradkern.convolution_backward_data(diff_dst, weights, **LAYER)
nearest = gradkern.exact(gradkern.convolution_backward_data, diff_dst, weights, **LAYER)
print("gradkern:", gradkern.compare(own, gradkern.convolution_backward_data, diff_dst, weights, **LAYER))
print(f"largest distance to the correctly rounded result: {(own - nearest).abs().max():.3g}")

# %%
assert reports["by_shifts"].ok
assert not reports["by_rolls"].ok
assert not reports["in_bf16"].ok
assert all(e.index[2] in (0, H - 1) or e.index[3] in (0, W - 1) for e in reports["by_rolls"].worst)
