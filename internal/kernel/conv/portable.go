package conv

import (
	"unsafe"

	"github.com/carve-dev/carve/internal/kernel/isa"
	"github.com/carve-dev/carve/internal/kernel/pairs"
	"github.com/carve-dev/carve/internal/kernel/reorder"
)

// portableGeometry is the tile of the portable kernels.
var portableGeometry = geometry{pixels: 6, group: 3, blocks: 1}

// portableSets lists the sets of pixels that a tap may reach in a portable tile.
var portableSets = func() []pixelSet {
	g := portableGeometry
	var sets []pixelSet
	intervals := func(n int, pair bool) {
		for lo := range n {
			for hi := lo + 1; hi <= n; hi++ {
				sets = append(sets, pixelSet{uint8(lo), uint8(hi), pair})
			}
		}
	}
	intervals(g.pixels, false)
	intervals(g.group, true)
	return sets
}()

var portablePlaces = newPlaces(portableSets, nil)

// portableBodies numbers the sets of pixels, as bodies do in assembly, the end of the list last.
var portableBodies = func() []uintptr {
	b := make([]uintptr, len(portableSets)+1)
	for i := range b {
		b[i] = uintptr(i)
	}
	return b
}()

// portablePixels lists the pixels of each set.
var portablePixels = func() [][]int {
	var out [][]int
	for _, s := range portableSets {
		var pixels []int
		for p := int(s.lo); p < int(s.hi); p++ {
			pixels = append(pixels, p)
		}
		if s.pair {
			for p := int(s.lo); p < int(s.hi); p++ {
				pixels = append(pixels, portableGeometry.group+p)
			}
		}
		out = append(out, pixels)
	}
	return out
}()

// portableMasks has a bit for each pixel of each set.
var portableMasks = func() (out []uint8) {
	for _, pixels := range portablePixels {
		m := uint8(0)
		for _, p := range pixels {
			m |= 1 << p
		}
		out = append(out, m)
	}
	return out
}()

func portableKernel(k kind) tileKernel {
	return tileKernel{kernelID(k), portableGeometry, portableBodies, portablePlaces}
}

// pixelRow is the 16 channels of one pixel.
type pixelRow = [16]float32

// runPortable does in Go what the kernels do in assembly, for tiles of one output channel block.
func runPortable(id kernelID, c *tileCall) {
	g := portableGeometry
	var acc [6]pixelRow
	end := uintptr(len(portableBodies) - 1)
	for i := range c.n {
		t := (*tile)(unsafe.Add(c.tiles, i*tileSize))
		dst := unsafe.Add(c.dst, t.dst)
		at := func(base unsafe.Pointer, p int) *pixelRow {
			if p >= g.group {
				return (*pixelRow)(unsafe.Add(base, c.dstGroup+int64(p-g.group)*c.dstCol))
			}
			return (*pixelRow)(unsafe.Add(base, int64(p)*c.dstCol))
		}
		inUse := func(p int) bool {
			return p < g.group && int64(p) < t.n0 || p >= g.group && int64(p-g.group) < t.n1
		}
		for p := range acc {
			acc[p] = *(*pixelRow)(c.bias)
			if c.flags&flagAccumulate != 0 && inUse(p) {
				acc[p] = *at(dst, p)
			}
		}
		blocks := c.full + c.tail
		if kind(id) == kindDepth {
			for p := range acc {
				if inUse(p) {
					portableDepth(c, t, p, &acc[p])
				}
			}
			blocks = 0
		}
		// Offsets, not pointers: the place of pixel 0 may lie outside the source where no tap reaches that pixel.
		src, w := t.src, int64(0)
		for b := range blocks {
			list := unsafe.Add(c.taps, t.taps)
			if b >= c.full {
				list = unsafe.Add(c.taps, t.tail)
			}
			for {
				tp := (*tap)(list)
				if tp.body == end {
					break
				}
				for _, p := range portablePixels[tp.body] {
					off := src + tp.src + int64(p)*c.srcCol
					if p >= g.group {
						off += c.srcGroup - int64(g.group)*c.srcCol
					}
					portableTap(kind(id), &acc[p], unsafe.Add(c.src, off), c.w, w+tp.w, tp.count/64, c.step)
				}
				list = unsafe.Add(list, tapSize)
			}
			src, w = src+c.srcBlk, w+c.wBlk
		}
		for p := range acc {
			if !inUse(p) {
				continue
			}
			scale, res := float32(1), (*pixelRow)(nil)
			if kind(id) == kindSum {
				scale = *(*float32)(unsafe.Add(c.scale, t.scale+int64(4*p)))
			}
			if c.res != nil {
				res = at(unsafe.Add(c.res, t.dst), p)
			}
			portableFinish(c, &acc[p], scale, res)
			*at(dst, p) = acc[p]
		}
	}
}

// portableTap adds one tap to one pixel; w is the offset of its weights (pools have none).
func portableTap(k kind, acc *pixelRow, src, weights unsafe.Pointer, w, steps, step int64) {
	if k == kindDense {
		portableDense(acc, unsafe.Slice((*float32)(src), steps), unsafe.Slice((*pixelRow)(unsafe.Add(weights, w)), steps), step)
		return
	}
	if k == kindPairs {
		portablePairs(acc, unsafe.Slice((*uint32)(src), steps), unsafe.Slice((*[16]uint32)(unsafe.Add(weights, w)), steps))
		return
	}
	if k == kindFloat16 {
		portableFloat16(acc, unsafe.Slice((*uint16)(src), 2*steps), unsafe.Slice((*[16]uint16)(unsafe.Add(weights, w)), 2*steps))
		return
	}
	if k == kindLanes {
		x, rows := (*pixelRow)(src), unsafe.Slice((*pixelRow)(unsafe.Add(weights, w)), steps)
		for i, row := range rows {
			for l := range acc {
				acc[l] += x[l&^(len(rows)-1)+i] * row[l]
			}
		}
		return
	}
	for i := range steps {
		x := (*pixelRow)(unsafe.Add(src, i*step))
		switch k {
		case kindMax:
			for l, v := range x {
				if !(acc[l] > v) {
					acc[l] = v
				}
			}
		case kindSum:
			for l, v := range x {
				acc[l] += v
			}
		case kindDense, kindDepth, kindLanes, kindPairs, kindFloat16: // see above
		}
	}
}

// portableDense adds the products of source channels x, step bytes apart, and their rows of weights, eight sums at a time. The compiler moves products in
// front of the sums of a basic block: with more than four at a time, sums would leave the registers of amd64, and each wait for memory.
func portableDense(acc *pixelRow, x []float32, rows []pixelRow, step int64) {
	rows = rows[:len(x)]
	for l := 0; l < 16; l += 8 {
		a := (*[8]float32)(acc[l:])
		s0, s1, s2, s3, s4, s5, s6, s7 := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		for i, v := range x {
			r := (*[8]float32)(rows[i][l:])
			s0 += v * r[0]
			s1 += v * r[1]
			s2 += v * r[2]
			s3 += v * r[3]
			if step < 0 { // never: it ends the block
				break
			}
			s4 += v * r[4]
			s5 += v * r[5]
			s6 += v * r[6]
			s7 += v * r[7]
		}
		*a = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
	}
}

// portableDepth adds the taps of a depthwise kernel to pixel p of a tile, eight sums at a time through all taps.
func portableDepth(c *tileCall, t *tile, p int, acc *pixelRow) {
	shift := int64(p) * c.srcCol
	if p >= portableGeometry.group {
		shift += c.srcGroup - int64(portableGeometry.group)*c.srcCol
	}
	end, step := uintptr(len(portableBodies)-1), c.step
	for l := 0; l < 16; l += 8 {
		a := (*[8]float32)(acc[l:])
		s0, s1, s2, s3, s4, s5, s6, s7 := a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]
		src, w := t.src+shift+int64(4*l), int64(4*l)
		for b := range c.full + c.tail {
			list := (*tap)(unsafe.Add(c.taps, t.taps))
			if b >= c.full {
				list = (*tap)(unsafe.Add(c.taps, t.tail))
			}
			for ; list.body != end; list = (*tap)(unsafe.Add(unsafe.Pointer(list), tapSize)) {
				if portableMasks[list.body]>>p&1 == 0 {
					continue
				}
				x, y := unsafe.Add(c.src, src+list.src), unsafe.Add(c.w, w+list.w)
				for n := list.count; n > 0; n -= 64 {
					v, r := (*[8]float32)(x), (*[8]float32)(y)
					s0 += v[0] * r[0]
					s1 += v[1] * r[1]
					s2 += v[2] * r[2]
					s3 += v[3] * r[3]
					if step < 0 { // never, as in portableDense
						break
					}
					s4 += v[4] * r[4]
					s5 += v[5] * r[5]
					s6 += v[6] * r[6]
					s7 += v[7] * r[7]
					if n > 64 {
						x, y = unsafe.Add(x, step), unsafe.Add(y, 64)
					}
				}
			}
			src, w = src+c.srcBlk, w+c.wBlk
		}
		*a = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
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

// portableFinish is the epilogue of one pixel.
func portableFinish(c *tileCall, acc *pixelRow, scale float32, res *pixelRow) {
	for l := range acc {
		v := acc[l] * scale
		if res != nil {
			v += res[l]
		}
		if c.flags&flagMax != 0 && v < c.lo {
			v = c.lo
		}
		if c.flags&flagMin != 0 && v > c.hi {
			v = c.hi
		}
		if c.flags&flagMask != 0 && c.mask[l] == 0 {
			v = 0
		}
		acc[l] = v
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
