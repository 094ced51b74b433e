//go:build ignore

package main

import "fmt"

// rowBody is the code for a whole row of a depthwise kernel under one pixel group: kernel taps stride apart over width
// pixels, of whose source pixels the first lo and the last hi lie outside the map.
type rowBody struct{ kernel, stride, width, group, lo, hi int }

// rows lists the rows for which there is code. serve writes the list for plans.
func (k *kernel) rows() (out []rowBody) {
	if k.kind == dense {
		return k.planarRows()
	}
	if k.kind != depth || k.halves() > 1 { // a row reads the weights of a block as one vector
		return nil
	}
	add := func(kernel, stride, width int) {
		for group := range 2 {
			if group == 1 && width > k.group {
				continue
			}
			for lo := range kernel/2 + 1 {
				for hi := range kernel/2 + 1 {
					out = append(out, rowBody{kernel, stride, width, group, lo, hi})
				}
			}
		}
	}
	if k.pixels == 2*k.group && k.group == 7 {
		add(7, 1, k.group)
		add(7, 1, k.pixels)
	}
	if !k.holds(3) { // the rest is for smaller tiles, which are faster but here: see fillsWide
		add(3, 2, k.group)
		add(3, 2, k.pixels)
		return out
	}
	for _, kernel := range []int{3, 5} {
		for _, stride := range []int{1, 2} {
			for width := 5; width <= k.pixels; width++ {
				if kernel == 5 && width != 7 && width < 13 && (k.pixels > 10 && width != 10 || width < 7) {
					continue
				}
				add(kernel, stride, width)
			}
		}
	}
	return out
}

// holds reports whether there are registers for so many weights and a source pixel beside the accumulators.
func (k *kernel) holds(weights int) bool { return k.pixels+weights+1 <= k.isa.Registers }

// row emits the i-th body of rows, for as many rows of the kernel below each other as the tap says. Accumulators see their taps in the order of
// the kernel, as in the other bodies.
func (k *kernel) row(i int, r rowBody) {
	fn := k.fn
	first, base := 0, "SI"
	if r.group == 1 {
		first, base = k.group, "BX"
		k.groupB()
	}
	label := fmt.Sprintf("%s_r%d_row", k.name, i)
	fn.I("MOVQ -16(CX), DX")
	fn.I("MOVQ %d(R14), R9", offSrcBlk)
	fn.Label(label)
	if k.holds(r.kernel) {
		k.bySource(r, first, base)
	} else {
		k.byWeight(r, first, base)
	}
	fn.I("ADDQ R9, %s", base)
	fn.I("ADDQ $%d, DI", 64*r.kernel)
	fn.I("SUBQ $64, DX")
	fn.I("JNE %s", label)
	k.next()
}

// bySource emits a row for pixels from first on: each source pixel is loaded once and multiplied by every weight that it meets.
func (k *kernel) bySource(r rowBody, first int, base string) {
	for t := range r.kernel {
		k.fn.I("VMOVUPS %d(DI), %s", 64*t, k.free(t))
	}
	spare := k.isa.Registers - k.pixels - r.kernel
	n := (r.width-1)*r.stride + r.kernel
	for j := r.lo; j < n-r.hi; j++ {
		x := k.free(r.kernel + j%spare)
		k.fn.I("VMOVUPS %d(%s), %s", 64*j, base, x)
		for t := r.kernel - 1; t >= 0; t-- {
			if p := j - t; p >= 0 && p%r.stride == 0 && p/r.stride < r.width {
				k.fn.I("VFMADD231PS %s, %s, %s", x, k.free(t), k.acc(first+p/r.stride, 0))
			}
		}
	}
}

// byWeight emits the same where registers do not hold a row of weights: each is loaded once, and the source for every multiply-add.
func (k *kernel) byWeight(r rowBody, first int, base string) {
	n := (r.width-1)*r.stride + r.kernel
	for t := range r.kernel {
		w := k.free(t % (k.isa.Registers - k.pixels))
		k.fn.I("VMOVUPS %d(DI), %s", 64*t, w)
		for p := range r.width {
			if j := p*r.stride + t; r.lo <= j && j < n-r.hi {
				k.fn.I("VFMADD231PS %d(%s), %s, %s", 64*j, base, w, k.acc(first+p, 0))
			}
		}
	}
}
