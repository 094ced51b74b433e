//go:build ignore

package main

import (
	"fmt"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// columnGroups are how many groups of 16 columns there are kernels for: a row of 64 is a line of memory, which is read once.
var columnGroups = []int{4, 1}

// channelSums writes the kernels that add up columns.
func channelSums(f *asm.File) {
	for _, v := range sets {
		channelSumsServed(f, v, func(name string, groups, kind int) {
			fn := f.Func(name, name+channelSumsDoc(groups), channelSumsArgs...)
			for _, x := range [][2]string{{"dst", "DI"}, {"src", "SI"}, {"ld", "BX"}, {"rows", "CX"}} {
				fn.Load(x[0], x[1])
			}
			vectors := groups * bytesVectors(v)
			for i := range vectors {
				fn.Clear(v, v.R(i))
			}
			fn.Loop("CX", func() {
				for i := range vectors {
					t := v.R(vectors + i%2)
					fn.I("%s %d(SI), %s", kinds[kind].numbers, i*v.Lanes, t)
					fn.I("VPADDD %s, %[2]s, %[2]s", t, v.R(i))
				}
				fn.I("ADDQ BX, SI")
			})
			for i := range vectors {
				fn.I("VMOVUPS %s, %d(DI)", v.R(i), i*v.Size())
			}
			fn.Ret()
		})
	}
}

var channelSumsArgs = []asm.Arg{pointer("dst", "int32"), pointer("src", "byte"), asm.Int("ld"), asm.Int("rows")}

func channelSumsDoc(groups int) string {
	return fmt.Sprintf(" writes the sums of %d columns of rows of bytes, ld apart; rows > 0.", 16*groups)
}

// channelSumsServed has each kernel written, by its name, groups and kind of bytes, and served.
func channelSumsServed(f *asm.File, v asm.ISA, write func(name string, groups, kind int)) {
	code := map[int]string{}
	for _, groups := range columnGroups {
		for kind := range kinds {
			name := fmt.Sprintf("columns%d%s%d", 16*groups, kinds[kind].name, 8*v.Size())
			write(name, groups, kind)
			code[2*groups+kind] = name + "(dst, src, ld, rows)"
		}
	}
	f.Serve("channelSums", v, fmt.Sprintf("switch {\ncase wide && signed:\n%s\ncase wide:\n%s\ncase signed:\n%s\ndefault:\n%s\n}", code[9], code[8], code[3], code[2]))
}

// neonChannelSums writes them for NEON: sums in the vectors from 0 on, or of one group in 0 to 3.
func neonChannelSums(f *asm.File) {
	channelSumsServed(f, asm.NEON(), func(name string, groups, kind int) {
		fn := f.Loaded(name, channelSumsDoc(groups)[1:], channelSumsArgs...)
		for i := range 4 * groups {
			fn.I("VEOR V%[1]d.B16, V%[1]d.B16, V%[1]d.B16", i)
		}
		letter := []string{"u", "s"}[kind]
		fn.Loop("R3", func() {
			for g := range groups {
				fn.I("FMOVQ %d(R1), F16", 16*g)
				fn.V(letter+"xtl.8h", 17, 16)
				fn.V(letter+"xtl2.8h", 18, 16)
				for i := range 4 {
					fn.V(letter+[]string{"xtl.4s", "xtl2.4s"}[i%2], 19+i, 17+i/2)
					fn.V("add.4s", 4*g+i, 4*g+i, 19+i)
				}
			}
			fn.I("ADD R2, R1")
		})
		for i := range 4 * groups {
			fn.I("FMOVQ.P F%d, 16(R0)", i)
		}
		fn.Ret()
	})
}

// twices writes the kernel that repeats bytes.
func twices(f *asm.File) {
	fn := f.Func("twice2", "twice2 writes each byte of n groups of 16 two times; n > 0.", pointer("dst", "byte"), pointer("src", "byte"), asm.Int("n"))
	fn.Load("dst", "DI")
	fn.Load("src", "SI")
	fn.Load("n", "CX")
	fn.Loop("CX", func() {
		fn.I("VPMOVZXBW (SI), Y0")
		fn.I("VPSLLW $8, Y0, Y1")
		fn.I("VPOR Y1, Y0, Y0")
		fn.I("VMOVDQU Y0, (DI)")
		fn.I("ADDQ $16, SI")
		fn.I("ADDQ $32, DI")
	})
	fn.Ret()
	served(f, "twice", "twice2(dst, src, n)")
}
