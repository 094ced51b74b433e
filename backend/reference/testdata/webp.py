"""Writes WebP files by Pillow (libwebp), and the pixels that it decodes them to as PNG: webp.py FOLDER [COUNT]"""
import io, os, random, sys
import numpy as np
from PIL import Image, ImageFilter

out, count = sys.argv[1], int((sys.argv + ["9"])[2])
rng, pick = np.random.default_rng(3), random.Random(3)
os.makedirs(out, exist_ok=True)
for i in range(count):
    kind = ["lossy", "lossless", "alpha"][i % 3]
    shape = (pick.randint(1, 40), pick.randint(1, 50), 4 if kind == "alpha" else 3)
    picture = Image.fromarray(rng.integers(0, 256, shape, np.uint8))
    if i % 2:
        picture = picture.filter(ImageFilter.GaussianBlur(1.2)).point(lambda v: max(0, min(255, (v - 128) * 4 + 128)))
    if kind == "alpha":
        picture.putalpha(Image.fromarray(rng.integers(1, 256, shape[:2], np.uint8)))
    file = io.BytesIO()
    picture.save(file, "WEBP", lossless=kind == "lossless", quality=pick.choice([5, 50, 90]), exact=True)
    open(f"{out}/{i:02}_{kind}.webp", "wb").write(file.getvalue())
    Image.open(io.BytesIO(file.getvalue())).convert("RGB").save(f"{out}/{i:02}_{kind}.png", optimize=True)
