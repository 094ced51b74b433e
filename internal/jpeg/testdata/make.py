"""Writes JPEG files of many kinds, by libjpeg-turbo's cjpeg and by Pillow, and the pixels that Pillow decodes them to, as PNG.

    make.py FOLDER [COUNT [SEED]]
"""
import io, os, random, subprocess, sys
import numpy as np
from PIL import Image, ImageFilter

out, count, seed = sys.argv[1], int((sys.argv + ["", "16"])[2] or 16), int((sys.argv + ["", "", "1"])[3] or 1)
rng, pick = np.random.default_rng(seed), random.Random(seed)
os.makedirs(out, exist_ok=True)
KINDS = ["2x2", "2x1", "1x1", "1x2", "4x1", "gray", "cmyk", "rgb", "4x2", "1x4"]


def encode(picture, kind, progressive):
    quality, restart = pick.choice([5, 40, 75, 95, 100]), pick.choice([0, 0, 1, 3])
    if "x" in kind:
        options = ["-progressive"] * progressive + ["-restart", f"{restart}B"] * (restart > 0)
        ppm = f"P6 {picture.width} {picture.height} 255\n".encode() + picture.tobytes()
        return subprocess.run(["cjpeg", "-quality", str(quality), "-sample", kind, *options], input=ppm, stdout=subprocess.PIPE, check=True).stdout
    file = io.BytesIO()
    mode = {"gray": "L", "cmyk": "CMYK", "rgb": "RGB"}[kind]
    picture.convert(mode).save(file, "JPEG", quality=quality, progressive=bool(progressive), restart_marker_blocks=restart, keep_rgb=kind == "rgb")
    return file.getvalue()


for i in range(count):
    kind, progressive = KINDS[i // 2 % len(KINDS)], i % 2
    picture = Image.fromarray(rng.integers(0, 256, (pick.randint(1, 40), pick.randint(1, 50), 3), np.uint8))
    if i % 3:
        picture = picture.filter(ImageFilter.GaussianBlur(1.5)).point(lambda v: max(0, min(255, (v - 128) * 4 + 128)))
    data = encode(picture, kind, progressive)
    name = f"{out}/{i:02}_{kind}_{'progressive' if progressive else 'sequential'}"
    open(name + ".jpg", "wb").write(data)
    Image.open(io.BytesIO(data)).convert("RGB").save(name + ".png", optimize=True)
