#!/usr/bin/env python3
"""Layers of many published networks as numbers: writes zoo.json, which tests and benchmarks read (zoo.hpp).

One layer a line: name, kind (convolution, conv_transpose, avg_pool, max_pool), batch, in_channels, out_channels, groups, size (spatial
size of src), kernel, strides, dilations, pads_begin, pads_end, output_padding: lists have one number per spatial axis. What is not
there is 0 of pads and 1 of the others. The batch is chosen so that a layer takes some milliseconds on one core and its tensors stay
below 100 MB.
"""
import json, os

LAYERS, SEEN = [], set()


def add(name, kind, ic, oc, size, k, s=1, p=None, d=1, g=1, op=0, train=32):
    r = len(size)
    rep = lambda v: list(v) if isinstance(v, (tuple, list)) else [v] * r
    k, s, d, op = rep(k), rep(s), rep(d), rep(op)
    size = list(size)
    if p is None:
        p = [((kk - 1) * dd) // 2 for kk, dd in zip(k, d)]
    if p == "same":  # as TensorFlow pads: the odd one at the end
        total = [max(0, ((i + ss - 1) // ss - 1) * ss + (kk - 1) * dd + 1 - i) for i, kk, ss, dd in zip(size, k, s, d)]
        pb, pe = [t // 2 for t in total], [t - t // 2 for t in total]
    elif p == "causal":
        pb, pe = [(kk - 1) * dd for kk, dd in zip(k, d)], [0] * r
    else:
        pb = pe = rep(p)
    if kind == "conv_transpose":
        out = [(i - 1) * ss - b - e + (kk - 1) * dd + 1 + o for i, ss, b, e, kk, dd, o in zip(size, s, pb, pe, k, d, op)]
    else:
        out = [(i + b + e - (kk - 1) * dd - 1) // ss + 1 for i, b, e, kk, dd, ss in zip(size, pb, pe, k, d, s)]
    assert min(out) > 0, name
    vi = vo = vk = 1
    for x in size: vi *= x
    for x in out: vo *= x
    for x in k: vk *= x
    macs = (vi if kind == "conv_transpose" else vo) * vk * (ic if kind.endswith("pool") else ic * (oc // g))
    key = (kind, ic, oc, g, tuple(size), tuple(k), tuple(s), tuple(d), tuple(pb), tuple(pe), tuple(op))
    if key in SEEN: return
    SEEN.add(key)
    budget = 300e6 if kind.startswith("conv") else 60e6
    n = max(1, min(train, int(budget // max(macs, 1)), int(12e6 // max(vi * ic, vo * oc))))
    if macs > 2.0e9: return
    layer = dict(name=name, kind=kind, batch=n, in_channels=ic, out_channels=oc, groups=g, size=size, kernel=k, strides=s, dilations=d,
                 pads_begin=pb, pads_end=pe, output_padding=op)
    defaults = dict(groups=1, strides=[1] * r, dilations=[1] * r, pads_begin=[0] * r, pads_end=[0] * r, output_padding=[0] * r)
    LAYERS.append({key: value for key, value in layer.items() if value != defaults.get(key)})


def conv(*a, **kw): add(a[0], "convolution", *a[1:], **kw)
def dw(name, c, size, k, s=1, **kw): add(name, "convolution", c, c, size, k, s, g=c, **kw)
def up(*a, **kw): add(a[0], "conv_transpose", *a[1:], **kw)
def avg(name, c, size, k, s=1, p=0, **kw): add(name, "avg_pool", c, c, size, k, s, p, **kw)
def mx(name, c, size, k, s=1, p=0, **kw): add(name, "max_pool", c, c, size, k, s, p, **kw)


# Classifiers
for c, n in ((64, 56), (128, 28), (256, 14), (512, 7)): conv("resnet18_3x3_%d" % c, c, c, (n, n), 3)
for i, o, n in ((64, 128, 56), (128, 256, 28), (256, 512, 14)):
    conv("resnet18_down_%d" % o, i, o, (n, n), 3, 2); conv("resnet18_shortcut_%d" % o, i, o, (n, n), 1, 2, 0)
for i, o, n in ((64, 64, 56), (64, 256, 56), (256, 128, 56), (128, 512, 28), (512, 256, 28), (1024, 256, 14), (1024, 512, 14), (512, 2048, 7)):
    conv("resnet152_1x1_%d_%d" % (i, o), i, o, (n, n), 1)
for c, n in ((16, 32), (32, 16), (64, 8)): conv("cifar_resnet20_%d" % c, c, c, (n, n), 3, train=128)
conv("cifar_stem", 3, 16, (32, 32), 3, train=128)
for c, n in ((160, 32), (320, 16), (640, 8)): conv("wrn28_10_%d" % c, c, c, (n, n), 3, train=128)
conv("lenet_c1", 1, 6, (28, 28), 5, train=128); conv("lenet_c3", 6, 16, (14, 14), 5, p=0, train=128); conv("mnist_32_64", 32, 64, (26, 26), 3, p=0, train=128)
conv("alexnet_like_11x11s4", 3, 96, (227, 227), 11, 4, 0); conv("alexnet_like_5x5g2", 96, 256, (27, 27), 5, g=2)
for g, c, n in ((8, 96, 56), (16, 192, 28), (24, 432, 14), (48, 1008, 7)): conv("regnetx_%d_w%d" % (c, c // g), c, c, (n, n), 3, g=g)
for g, c, n in ((3, 48, 56), (7, 112, 28), (16, 256, 14), (38, 608, 7)): conv("regnety_%d_g%d" % (c, g), c, c, (n, n), 3, 1, g=g)
conv("regnety_down_s2", 224, 448, (56, 56), 3, 2, g=2)
for c, n in ((256, 56), (512, 28), (1024, 14), (2048, 7)): conv("resnext50_g32_%d" % (c // 2), c // 2, c // 2, (n, n), 3, g=32)
conv("resnext50_g32_256_s2", 256, 256, (56, 56), 3, 2, g=32)
for c, n in ((116, 28), (232, 14), (464, 7)): conv("shufflenet_1x1_%d" % (c // 2), c // 2, c // 2, (n, n), 1); dw("shufflenet_dw_%d" % (c // 2), c // 2, (n, n), 3)
dw("shufflenet_dw_24_s2", 24, (56, 56), 3, 2)
for e, c, n, k, s in ((48, 24, 112, 3, 1), (144, 24, 56, 3, 2), (144, 32, 56, 5, 2), (192, 48, 28, 5, 1), (288, 48, 28, 3, 2), (288, 96, 14, 3, 1), (576, 96, 14, 5, 1),
                      (816, 136, 14, 5, 2), (1392, 232, 7, 5, 1), (1392, 232, 7, 3, 1)):
    dw("efficientnet_b3_dw%d_k%d_s%d" % (e, k, s), e, (n, n), k, s, p="same"); conv("efficientnet_b3_project_%d_%d" % (e, c), e, c, (n // s, n // s), 1)
    conv("efficientnet_b3_expand_%d_%d" % (c, e), c, e, (n, n), 1)
for i, o, n, s in ((24, 24, 64, 1), (24, 96, 64, 2), (48, 192, 32, 1), (64, 256, 32, 2)): conv("efficientnetv2_fused_%d_%d_s%d" % (i, o, s), i, o, (n, n), 3, s, p="same")
for c, n in ((32, 112), (64, 56), (128, 28), (256, 28), (512, 14)): dw("mnasnet_like_dw5_%d" % c, c, (n, n), 5)
for c, n, k in ((40, 28, 5), (60, 28, 5), (100, 14, 3), (336, 14, 3), (480, 7, 5)): dw("ghostnet_dw_%d_k%d" % (c, k), c, (n, n), k)
conv("squeezenet_squeeze", 128, 16, (55, 55), 1); conv("squeezenet_expand1", 16, 64, (55, 55), 1); conv("squeezenet_expand3", 16, 64, (55, 55), 3); conv("squeezenet_expand3_48", 48, 192, (27, 27), 3)
for c, n in ((128, 147), (256, 74), (728, 19), (1024, 10)): dw("xception_sep_%d" % c, c, (n, n), 3); conv("xception_point_%d" % c, c, c if c < 1024 else 1536, (n, n), 1)
for k in ((1, 7), (7, 1)): conv("inception_v4_%dx%d" % k, 192, 224, (17, 17), k); conv("inception_v4_c_%dx%d" % k, 384, 256, (17, 17), k)
for k in ((1, 3), (3, 1)): conv("inception_v4_%dx%d" % k, 384, 256, (8, 8), k)
for i, n in ((64, 56), (256, 28), (640, 14), (1280, 7)): conv("densenet169_bottleneck_%d" % i, i, 128, (n, n), 1); conv("densenet169_grow_%d" % n, 128, 32, (n, n), 3)
for c, n in ((96, 56), (192, 28), (384, 14)): dw("convnext_s_dw7_%d" % c, c, (n, n), 7); conv("convnext_s_up_%d" % c, c, 4 * c, (n, n), 1)
conv("convnext_down", 192, 384, (28, 28), 2, 2, 0); conv("swin_patch", 3, 96, (224, 224), 4, 4, 0); conv("vit_l14_patch", 3, 1024, (224, 224), 14, 14, 0)
for c, n in ((128, 56), (256, 28)): dw("replknet_dw31_%d" % c, c, (n, n), 31, train=8)
for c, n in ((64, 56), (384, 14)): dw("coatnet_like_dw_%d_s2" % c, c, (n, n), 3, 2, p="same")
for c, n in ((32, 64), (64, 32), (128, 16), (256, 8)): conv("hrnet_w32_%d" % c, c, c, (n, n), 3)
# Detection and segmentation
for i, o, n in ((32, 64, 208), (128, 256, 52), (512, 1024, 13)): conv("darknet53_s2_%d" % o, i, o, (2 * n, 2 * n), 3, 2, train=16)
for c, n in ((48, 80), (96, 40), (192, 20)): conv("yolov8m_c2f_%d" % c, c, c, (n, n), 3, train=16)
for n in (100, 50, 25, 13): conv("retinanet_fpn_256_%d" % n, 256, 256, (n, n), 3, train=8)
conv("ssd_fc6_d6", 512, 1024, (19, 19), 3, d=6, train=16)
for d in (6, 12, 18): conv("aspp_d%d" % d, 512, 256, (33, 33), 3, d=d, train=8)
for c, d in ((128, 1), (128, 2), (128, 8), (128, 16)): conv("enet_dilated_%d_d%d" % (c, d), 32, 32, (64, 64), 3, d=d, train=8)
conv("enet_asym_5x1", 32, 32, (64, 64), (5, 1), train=8); conv("enet_asym_1x5", 32, 32, (64, 64), (1, 5), train=8)
up("centernet_up", 256, 256, (16, 16), 4, 2, 1, train=16); up("maskrcnn_up", 256, 256, (14, 14), 2, 2, 0, train=64); up("fcn8s_up2", 21, 21, (34, 34), 4, 2, 1, train=8)
up("fcn8s_up8", 21, 21, (70, 70), 16, 8, 4, train=4); up("unetpp_up", 64, 32, (128, 128), 2, 2, 0, train=8); up("espnet_up", 19, 19, (64, 64), 2, 2, 0, train=8)
for c, n in ((32, 128), (64, 64), (128, 32), (256, 16)): conv("unetpp_%d" % c, 2 * c, c, (n, n), 3, train=8)
# 3-D
for c, n in ((32, 48), (64, 24), (128, 12), (256, 6), (320, 4)): conv("nnunet3d_%d" % c, c, c, (n, n, n), 3, train=2)
for i, o, n in ((32, 64, 32), (128, 256, 8)): conv("nnunet3d_s2_%d" % o, i, o, (n, n, n), 3, 2, train=2); up("nnunet3d_up_%d" % i, o, i, (n // 2, n // 2, n // 2), 2, 2, 0, train=2)
for c, n in ((16, 32), (32, 16), (64, 8)): conv("vnet_5x5x5_%d" % c, c, c, (n, n, n), 5, train=2)
for c, n in ((64, 56), (128, 28), (256, 14)): conv("r2plus1d_spatial_%d" % c, c, c, (8, n, n), (1, 3, 3), train=4); conv("r2plus1d_temporal_%d" % c, c, c, (8, n, n), (3, 1, 1), train=4)
for c, n in ((54, 56), (108, 28), (216, 14)): dw("x3d_dw_%d" % c, c, (8, n, n), 3, train=4)
dw("csn_dw_64", 64, (8, 28, 28), 3, train=4); conv("slowfast_stem", 3, 8, (32, 112, 112), (5, 7, 7), (1, 2, 2), train=2); conv("slow_stem", 3, 64, (8, 112, 112), (1, 7, 7), (1, 2, 2), train=2)
# 1-D: speech, audio, time series
for c, k in ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75)): dw("quartznet_dw_k%d" % k, c, (400,), k, train=32); conv("quartznet_point_%d" % c, c, c, (400,), 1, train=32)
for c, k in ((256, 11), (384, 13), (512, 17), (640, 21)): conv("jasper_k%d" % k, c, c, (400,), k, train=16)
dw("conformer_dw_k31", 512, (300,), 31, train=32); dw("conformer_s_dw_k31", 144, (300,), 31, train=32); conv("conformer_sub", 1, 144, (1200, 80), 3, 2, 0, train=4); conv("conformer_sub2", 144, 144, (599, 39), 3, 2, 0, train=4)
for d in (1, 4, 16, 64, 256): conv("tcn_d%d" % d, 64, 64, (1024,), 3, d=d, p="causal", train=32)
conv("tacotron2_postnet", 512, 512, (800,), 5, train=8); conv("demucs_s4", 64, 128, (16384,), 8, 4, 2, train=8); up("demucs_up", 128, 64, (4096,), 8, 4, 2, train=8)
for c, k, s in ((512, 16, 8), (256, 10, 5), (128, 8, 4), (64, 4, 2)): up("encodec_up_s%d" % s, c, c // 2, (150 * 8 // s,), k, s, (k - s) // 2, train=8)
conv("encodec_stem_k7", 1, 32, (24000,), 7, train=8); conv("encodec_res_k3", 64, 32, (12000,), 3, train=8); conv("wav2vec2_feat_k10s5", 1, 512, (16000,), 10, 5, 0, train=4); conv("wav2vec2_feat_k3s2", 512, 512, (1600,), 3, 2, 0, train=4)
for d in (1, 2, 8, 32): conv("waveglow_wn_d%d" % d, 256, 512, (1000,), 3, d=d, train=4)
conv("pointnet_k1_64", 64, 128, (1024,), 1, train=32); conv("pointnet_k1_1024", 128, 1024, (1024,), 1, train=32)
conv("ecg_k15s2", 12, 64, (4096,), 15, 2, train=32); conv("ecg_k7", 128, 128, (1024,), 7, train=32)
# Generators and restoration
for i, o, n in ((3, 64, 128), (64, 128, 64), (128, 256, 32), (256, 512, 16), (512, 512, 8), (512, 512, 4)): conv("pix2pix_down_%d_%d" % (o, n), i, o, (2 * n, 2 * n), 4, 2, 1, train=4)
for i, o, n in ((512, 512, 2), (1024, 512, 8), (1024, 256, 16), (512, 128, 32), (256, 64, 64), (128, 3, 128)): up("pix2pix_up_%d_%d" % (o, n), i, o, (n, n), 4, 2, 1, train=4)
conv("cyclegan_7x7", 3, 64, (128, 128), 7, train=2); up("cyclegan_up", 128, 64, (64, 64), 3, 2, 1, op=1, train=2); conv("cyclegan_out_7x7", 64, 3, (128, 128), 7, train=2)
for i, o in ((64, 32), (96, 32), (192, 64)): conv("esrgan_%d_%d" % (i, o), i, o, (64, 64), 3, train=8)
conv("edsr_256", 256, 256, (48, 48), 3, train=8); conv("fsrcnn_9x9_like", 1, 56, (64, 64), 5, train=32); up("fsrcnn_up9", 56, 1, (64, 64), 9, 3, 4, op=2, train=16)
for c, n in ((128, 128), (256, 64), (512, 32)): conv("vae_%d" % c, c, c, (n, n), 3, train=2)
conv("vae_down_same", 128, 128, (128, 128), 3, 2, p="same", train=2); conv("vae_latent_4", 512, 8, (32, 32), 3, train=4); conv("vae_latent_in", 4, 512, (32, 32), 3, train=4)
for c, n in ((320, 32), (640, 16), (1280, 8)): conv("sd_res_%d" % c, c, c, (n, n), 3, train=2)
up("stylegan2_up_64", 128, 64, (64, 64), 3, 2, 0, train=4); up("dcgan32_last", 64, 3, (16, 16), 4, 2, 1, train=128); up("dcgan32_first", 100, 256, (1, 1), 4, 1, 0, train=128)
# Pools
for c, n in ((64, 112), (96, 55), (256, 27)): mx("max3s2_%d" % c, c, (n, n), 3, 2, train=32); mx("max3s2p1_%d" % c, c, (n, n), 3, 2, 1, train=32)
for c, n in ((16, 128), (32, 64), (128, 56), (512, 14), (20, 24)): mx("max2s2_%d_%d" % (c, n), c, (n, n), 2, 2, train=32)
for k in (5, 9): mx("sppf_max%d" % k, 384, (20, 20), k, 1, k // 2, train=16)
mx("max3s1p1_480", 480, (14, 14), 3, 1, 1, train=32); mx("max1d_k2_64", 64, (2048,), 2, 2, train=32); mx("max1d_k3s2_128", 128, (1024,), 3, 2, 1, train=32); mx("max3d_2_32", 32, (32, 32, 32), 2, 2, train=2)
mx("max3d_1x2x2_64", 64, (16, 56, 56), (1, 2, 2), (1, 2, 2), train=2); mx("max3d_1x3x3s2_64", 64, (8, 56, 56), (1, 3, 3), (1, 2, 2), (0, 1, 1), train=2); mx("max_time_4x1", 32, (400, 40), (4, 1), (4, 1), train=8)
for c, n in ((256, 56), (512, 28), (1024, 14)): avg("avg2s2_%d" % c, c, (n, n), 2, 2, train=32)
for c, n in ((192, 35), (768, 17), (1280, 8)): avg("avg3s1p1_%d" % c, c, (n, n), 3, 1, 1, train=32)
for c, n in ((512, 7), (1280, 7), (1536, 8), (576, 1)): avg("global_%d" % c, c, (n, n), n, 1, train=32)
avg("avg5s3_512", 512, (14, 14), 5, 3, train=32); avg("avg7s7_64", 64, (56, 56), 7, 7, train=32); avg("pspnet_bin3", 512, (60, 60), 20, 20, train=4); avg("avg1d_k2_256", 256, (1024,), 2, 2, train=32); avg("avg1d_k25s1_7", 7, (336,), 25, 1, train=256)
avg("avg3d_global", 432, (8, 7, 7), (8, 7, 7), 1, train=4); avg("avg3d_2x1x1", 256, (16, 28, 28), (2, 1, 1), (2, 1, 1), train=2); avg("lpips_like_avg4", 3, (256, 256), 4, 4, train=8); avg("ssim_avg11", 3, (128, 128), 11, 1, train=8); avg("stylegan_blur_like_avg2s1", 128, (65, 65), 2, 1, train=4)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo.json"), "w") as out:
    out.write("[\n" + ",\n".join(map(json.dumps, LAYERS)) + "\n]\n")
kinds = {}
for l in LAYERS: kinds[l["kind"]] = kinds.get(l["kind"], 0) + 1
print(len(LAYERS), kinds)
