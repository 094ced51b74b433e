package conv

import (
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// portableGeometry is the tile of the portable kernels.
var portableGeometry = geometry{pixels: 8, group: 8, blocks: 1}

// portableSets lists the sets of pixels that a tap may reach in a portable tile.
var portableSets = func() []pixelSet {
	g := portableGeometry
	var sets []pixelSet
	for lo := range g.pixels {
		for hi := lo + 1; hi <= g.pixels; hi++ {
			sets = append(sets, pixelSet{lo: uint8(lo), hi: uint8(hi)})
		}
	}
	return sets
}()

// portablePlaces number the sets of pixels, and depthPlaces the rows of depthwise kernels besides. The body of a set is a bit for each pixel, that of the end of
// a list 0.
var portablePlaces, depthPlaces, portableBodies = func() (sets, rows *bodyPlaces, bodies []uintptr) {
	list, more := rowBodies()
	for _, s := range portableSets {
		bodies = append(bodies, 1<<s.hi-1<<s.lo)
	}
	return newPlaces(portableSets, nil), newPlaces(portableSets, list), slices.Concat(bodies, []uintptr{0}, more)
}()

func portableKernel(k kind) tileKernel {
	places := portablePlaces
	if k == kindDepth {
		places = depthPlaces
	}
	return tileKernel{kernelID(k), portableGeometry, portableBodies, places}
}

// pixelRow is the 16 channels of one pixel.
type pixelRow = [16]float32

// portableTile is the sums of a tile.
type portableTile [8]pixelRow

// runPortable does in Go what the kernels do in assembly, for tiles of one output channel block, whose pixels are in one row.
func runPortable(id kernelID, c *tileCall) {
	var acc portableTile
	k, limits := kind(id), limitsOf(c)
	plain := k != kindSum && c.res == nil && c.flags&(flagMask|flagHalf) == 0
	for i := range c.n {
		t := (*tile)(unsafe.Add(c.tiles, i*tileSize))
		for p := range t.n0 {
			acc[p] = *(*pixelRow)(c.bias)
			if c.flags&flagAccumulate != 0 {
				acc[p] = *(*pixelRow)(unsafe.Add(c.dst, t.dst+p*c.dstCol))
			}
		}
		switch {
		case k == kindDense:
			c.dense(t, &acc)
		case (k == kindDepth || k == kindLanes) && (c.srcCol == nextPixel || c.srcCol == secondPixel):
			c.lanes(k, t, &acc)
		default:
			c.plain(k, t, &acc)
		}
		for p := range t.n0 {
			at, sums := t.dst+p*c.dstCol, &acc[p]
			if plain {
				limits.apply((*pixelRow)(unsafe.Add(c.dst, at)), sums)
				continue
			}
			if k == kindSum {
				scale := *(*float32)(unsafe.Add(c.scale, t.scale+4*p))
				for l := range sums {
					sums[l] *= scale
				}
			}
			c.finish(at, sums, &limits)
		}
	}
}

// tapsOf returns the first tap of a tile for block b of source channels.
func (c *tileCall) tapsOf(t *tile, b int64) *tap {
	if b >= c.full {
		return (*tap)(unsafe.Add(c.taps, t.tail))
	}
	return (*tap)(unsafe.Add(c.taps, t.taps))
}

// next returns the tap behind one that is not the end.
func (t *tap) next() *tap { return (*tap)(unsafe.Add(unsafe.Pointer(t), tapSize)) }

// plain adds all taps to a tile, pixel by pixel.
func (c *tileCall) plain(k kind, t *tile, acc *portableTile) {
	// Offsets, not pointers: the place of pixel 0 may lie outside the source where no tap reaches that pixel.
	src, w := t.src, int64(0)
	for b := range c.full + c.tail {
		for tp := c.tapsOf(t, b); tp.body != 0; tp = tp.next() {
			for p := range t.n0 {
				if tp.body>>p&1 != 0 {
					portableTap(k, &acc[p], unsafe.Add(c.src, src+tp.src+p*c.srcCol), c.w, w+tp.w, tp.count/64, c.step)
				}
			}
		}
		src, w = src+c.srcBlk, w+c.wBlk
	}
}

// portableTap adds one tap to one pixel; w is the offset of its weights (pools have none).
func portableTap(k kind, acc *pixelRow, src, weights unsafe.Pointer, w, steps, step int64) {
	switch k {
	case kindPairs:
		portablePairs(acc, unsafe.Slice((*uint32)(src), steps), unsafe.Slice((*[16]uint32)(unsafe.Add(weights, w)), steps))
		return
	case kindFloat16:
		portableFloat16(acc, unsafe.Slice((*uint16)(src), 2*steps), unsafe.Slice((*[16]uint16)(unsafe.Add(weights, w)), 2*steps))
		return
	case kindLanes:
		x, rows := (*pixelRow)(src), unsafe.Slice((*pixelRow)(unsafe.Add(weights, w)), steps)
		for i, row := range rows {
			for l := range acc {
				acc[l] += x[l&^(len(rows)-1)+i] * row[l]
			}
		}
		return
	case kindDense, kindDepth, kindMax, kindSum:
	}
	for i := range steps {
		x := (*pixelRow)(unsafe.Add(src, i*step))
		switch k {
		case kindMax:
			for l, v := range x {
				acc[l] = max(acc[l], v)
			}
		case kindSum:
			for l, v := range x {
				acc[l] += v
			}
		case kindDepth:
			for l, v := range x {
				acc[l] += v * (*pixelRow)(unsafe.Add(weights, w+64*i))[l]
			}
		case kindDense, kindLanes, kindPairs, kindFloat16: // see above
		}
	}
}

// portablePairs adds the products of words of source channels and their rows of weights.
func portablePairs(acc *pixelRow, x []uint32, rows [][16]uint32) {
	for i, v := range x {
		for l, w := range rows[i] {
			acc[l] += pairs.High(v) * pairs.High(w)
			acc[l] += pairs.Low(v) * pairs.Low(w)
		}
	}
}

// portableFloat16 adds the products of source channels in float16 and their rows of weights.
func portableFloat16(acc *pixelRow, x []uint16, rows [][16]uint16) {
	var row, channels pixelRow // of which a tap has at most one block
	reorder.FromHalf(isa.Target{}, channels[:], x, reorder.Float16)
	for i := range x {
		reorder.FromHalf(isa.Target{}, row[:], rows[i][:], reorder.Float16)
		for l, w := range row {
			acc[l] += channels[i] * w
		}
	}
}

// finish is the epilogue of the sums of a pixel, which it overwrites, at so many bytes from the destination.
func (c *tileCall) finish(at int64, sums *pixelRow, limits *limits) {
	if c.res != nil {
		res := (*pixelRow)(unsafe.Add(c.res, at))
		for l := range sums {
			sums[l] += res[l]
		}
	}
	limits.apply(sums, sums)
	if c.flags&flagMask != 0 {
		for l := range sums {
			if c.mask[l] == 0 {
				sums[l] = 0
			}
		}
	}
	dst := (*pixelRow)(unsafe.Add(c.dst, at))
	if c.flags&flagHalf == 0 {
		*dst = *sums
		return
	}
	from := c.pass / 4
	*(*[8]float32)(dst[from:]) = *(*[8]float32)(sums[from:])
	if c.flags&flagAlone != 0 {
		*(*[8]float32)(dst[8-from:]) = [8]float32{}
	}
}

// rowAt is the pixel at off bytes from base.
func rowAt(base *float32, off int) *pixelRow {
	return (*pixelRow)(unsafe.Add(unsafe.Pointer(base), off))
}

func floatAt(base *float32, i int) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(base), 4*i))
}

// offsets returns the i-th pair of a table.
func offsets(at *int32, i int) (first, second int) {
	pair := (*[2]int32)(unsafe.Add(unsafe.Pointer(at), 8*i))
	return int(pair[0]), int(pair[1])
}
