//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// What a tile of convolutions and pools does for a tap, for each set of pixels that a tap may reach.

// span is a half-open interval of pixels of a tile.
type span struct{ lo, hi int }

// subsets lists the sets of pixels that a tap may reach, as far as there is code for them: intervals of the tile, and the same
// interval of both groups. Plans put others together of these, the first pixels first. What is left out begins behind the second
// pixel of a group and ends before its last, and is not one pixel. Code for those too, 133 sets of a tile of 14 pixels in place of 85,
// makes 33 of the 35 convolutions of BenchmarkConv faster by 1 % at most, and the others by 2 % (AVX-512, AMD Zen 4).
func (k *kernel) subsets() [][]span {
	var out [][]span
	keep := func(lo, hi int) bool {
		return hi == lo+1 || lo < 2 || lo == k.group || lo == k.group+1 || hi == k.group || hi == k.pixels
	}
	for lo := range k.pixels {
		for hi := lo + 1; hi <= k.pixels; hi++ {
			if keep(lo, hi) {
				out = append(out, []span{{lo, hi}})
			}
		}
	}
	if k.pixels == 2*k.group {
		for lo := range k.group {
			for hi := lo + 1; hi <= k.group; hi++ {
				if keep(lo, hi) {
					out = append(out, []span{{lo, hi}, {k.group + lo, k.group + hi}})
				}
			}
		}
	}
	return out
}

// body emits the code of a tap that reaches the pixels of set.
func (k *kernel) body(i int, set []span) {
	fn := k.fn
	each := func(op func(p int)) {
		for _, s := range set {
			for p := s.lo; p < s.hi; p++ {
				op(p)
			}
		}
	}
	label := fmt.Sprintf("%s_l%d", k.name, i)
	both := set[len(set)-1].hi > k.group
	fn.I("MOVQ -16(CX), DX") // of the weights: CX is at the next tap
	if k.wholeBlock(set) {
		k.block(label, both, each)
	}
	fn.I("ADDQ DI, DX")
	if both {
		k.groupB()
	}
	switch k.kind {
	case dense, pairs, float16:
		k.channels(label, both, each)
		k.next()
		return
	case lanes:
		if k.isa == asm.AVX2() {
			k.spread(label, each)
			return
		}
		fn.I("LEAQ %s, AX", asm.DataAt(laneTable, 0))
		fn.I("ADDQ R11, AX")
	case depth, maxPool, sumPool:
	}
	fn.I("PCALIGN $64")
	fn.Label(label)
	switch k.kind {
	case dense, pairs, float16:
	case depth:
		for v := range k.vecs() {
			fn.I("VMOVUPS %d(DI), %s", v*32, k.free(v))
		}
		each(func(p int) {
			for v := range k.vecs() {
				fn.I("VFMADD231PS %s, %s, %s", k.pixel(p, v*32, "SI", "BX"), k.free(v), k.acc(p, v))
			}
		})
	case lanes:
		index, w, x := k.free(0), 1, k.free(1+k.vecs())
		fn.I("VMOVUPS (AX), %s", index)
		for v := range k.vecs() {
			fn.I("VMOVUPS %d(DI), %s", v*32, k.free(w+v))
		}
		each(func(p int) {
			for v := range k.vecs() {
				fn.I("VPERMPS %s, %s, %s", k.pixel(p, v*32, "SI", "BX"), index, x)
				fn.I("VFMADD231PS %s, %s, %s", k.free(w+v), x, k.acc(p, v))
			}
		})
	case maxPool, sumPool:
		op := map[kind]string{maxPool: "VMAXPS", sumPool: "VADDPS"}[k.kind]
		each(func(p int) {
			for v := range k.vecs() {
				fn.I("%s %s, %s, %s", op, k.pixel(p, v*32, "SI", "BX"), k.acc(p, v), k.acc(p, v))
			}
		})
	}
	fn.I("ADDQ $64, DI")
	if k.kind == lanes {
		fn.I("ADDQ $64, AX")
	} else {
		fn.I("ADDQ R11, SI")
		if both {
			fn.I("ADDQ R11, BX")
		}
	}
	fn.I("CMPQ DI, DX")
	fn.I("JNE %s", label)
	k.next()
}

// spread emits a tap of kind lanes with vectors of 256 bits, for each size of groups without a loop over their channels. Those of eight have a vector each, so
// that every channel is broadcast as it is loaded; smaller ones lie within the halves of a vector, where lanes are spread in one operation, while
// spreading them over whole vectors takes several.
func (k *kernel) spread(label string, each func(op func(p int))) {
	fn := k.fn
	x := k.free(k.vecs())
	group := func(n int, load func(i, p, v int)) {
		for i := range n {
			for v := range k.vecs() {
				fn.I("VMOVUPS %d(DI), %s", 64*i+v*32, k.free(v))
			}
			each(func(p int) {
				for v := range k.vecs() {
					load(i, p, v)
					fn.I("VFMADD231PS %s, %s, %s", k.free(v), x, k.acc(p, v))
				}
			})
		}
		k.next()
	}
	permuted := func(lanes ...int) func(i, p, v int) {
		return func(i, p, v int) {
			fn.I("VPERMILPS $%d, %s, %s", lanes[i], k.pixel(p, v*32, "SI", "BX"), x)
		}
	}
	fn.I("CMPQ R11, $%d", 64*(4-2)) // where in the tables that vectors of 512 bits have groups of four begin
	fn.I("JGT %s_eight", label)
	fn.I("JEQ %s_four", label)
	group(2, permuted(0b10_10_00_00, 0b11_11_01_01))
	fn.Label(label + "_four")
	group(4, permuted(0b00_00_00_00, 0b01_01_01_01, 0b10_10_10_10, 0b11_11_11_11))
	fn.Label(label + "_eight")
	group(8, func(i, p, v int) {
		fn.I("VBROADCASTSS %s, %s", k.pixel(p, v*32+4*i, "SI", "BX"), x)
	})
}

// wholeBlock reports whether a set has code of its own for taps of a whole block of channels, without a loop: whole tiles, and those that lack a pixel, of registers
// so few that a tap's multiply-adds are few, too. What else it costs is an eighth of its instructions, and takes time where another thread has its share of the core.
func (k *kernel) wholeBlock(set []span) bool {
	n := 0
	for _, s := range set {
		n += s.hi - s.lo
	}
	return k.kind == dense && k.isa == asm.AVX2() && k.only == "" && n >= k.pixels-1
}

// block emits that code, which is passed over where there are other channels, DX being the bytes of the tap's weights.
func (k *kernel) block(label string, both bool, each func(op func(p int))) {
	fn := k.fn
	fn.I("CMPQ DX, $%d", 16*64)
	fn.I("JNE %s_part", label)
	if both {
		k.groupB()
	}
	for u := range 16 {
		k.channel(u, each)
	}
	k.next()
	fn.Label(label + "_part")
}

// channels emits the loop of a dense tap over its channels: where a set has few registers, so that a step is short, four at a time
// while there are so many, and what is left without a loop.
func (k *kernel) channels(label string, both bool, each func(op func(p int))) {
	fn := k.fn
	steps := func(n int) {
		for u := range n {
			k.channel(u, each)
		}
		fn.I("ADDQ $%d, DI", 64*n)
		fn.I("ADDQ $%d, SI", 4*n)
		if both {
			fn.I("ADDQ $%d, BX", 4*n)
		}
	}
	loop := func(jump string, n int) {
		fn.I("PCALIGN $64")
		fn.Label(label)
		steps(n)
		fn.I("CMPQ DI, DX")
		fn.I("%s %s", jump, label)
	}
	if k.isa.Registers > 16 {
		loop("JNE", 1)
		return
	}
	const unroll = 4
	fn.I("SUBQ $%d, DX", 64*(unroll-1))
	fn.I("CMPQ DI, DX")
	fn.I("JGE %s_few", label)
	loop("JLT", unroll)
	left := func(at string, n int, jump, to string) { // compares the steps left with n
		fn.Label(label + at)
		fn.I("LEAQ %d(DI), AX", 64*(n-unroll+1))
		fn.I("CMPQ AX, DX")
		fn.I("%s %s%s", jump, label, to)
	}
	left("_few", 2, "JGT", "_one")
	steps(2)
	left("_one", 0, "JEQ", "_done")
	k.channel(0, each)
	fn.Label(label + "_done")
}

// channel emits the multiply-adds of channel u behind SI and DI.
func (k *kernel) channel(u int, each func(op func(p int))) {
	fn := k.fn
	for q := range k.blocks {
		at := []string{"(DI)", "(DI)(R11*1)", "(DI)(R11*2)"}[q]
		for h := range k.halvesOf(q) {
			off := ""
			if h+u > 0 {
				off = fmt.Sprint(h*32 + u*64)
			}
			fn.I("VMOVUPS %s%s, %s", off, at, k.free(q*k.halves()+h))
		}
	}
	spare := k.isa.Registers - (k.pixels+1)*k.vecs()
	n := 0
	each(func(p int) {
		x := k.free(k.vecs() + n%min(spare, 4))
		n++
		fn.I("VBROADCASTSS %s, %s", k.pixel(p, 4*u, "SI", "BX"), x)
		for v := range k.vecs() {
			if k.kind == pairs {
				fn.DotPairs(k.free(v), x, k.acc(p, v))
			} else {
				fn.I("VFMADD231PS %s, %s, %s", k.free(v), x, k.acc(p, v))
			}
		}
	})
}
