//go:build ignore

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/internal/kernel/asm"
)

// castTiles writes tiles of transpositions that change the type of elements on the way, for each kind and set.
func castTiles(f *asm.File) {
	f.Import("unsafe")
	var wide, narrow []string
	for _, k := range casts {
		switch k.name {
		case "castWiden16", "castNarrow16":
			continue
		case "castToBF16":
			k.wide = append(k.wide[:len(k.wide)-1:len(k.wide)-1], "VPSRLD $16, Z0, Z0", "VPMOVDW Z0, Y0")
		}
		name := kindName(k)
		call := castTile(f, k, asm.AVX512(), variant{}) + castTileArgs
		if k.to == 4 { // rows are whole cache lines
			call = "if to == streamed {\n" + castTile(f, k, asm.AVX512(), variant{stream: true}) + castTileArgs + "\n} else {\n" + call + "\n}"
		}
		wide = append(wide, "case "+name+":\n"+call)
		narrow = append(narrow, "case "+name+":\n"+castTile(f, k, asm.AVX2(), variant{})+castTileArgs)
	}
	f.Serve("castTiles", asm.AVX512(), "switch k {\n"+strings.Join(wide, "\n")+"\n}")
	f.Serve("castTiles", asm.AVX2(), "switch k {\n"+strings.Join(narrow, "\n")+"\n}")
	f.Serve("castSide", asm.AVX512(), "return 16")
	f.Serve("castSide", asm.AVX2(), "return 8")
}

const castTileArgs = "(dst, dstStride, dstStep, src, srcStride, srcStep, ahead, n)"

// castTile writes the tile of a kind and returns its name.
func castTile(f *asm.File, k castKind, isa asm.ISA, v variant) string {
	name := v.name(k.name+"Tiles", 8*isa.Size())
	text := name + fmt.Sprintf(strings.Replace(tilesDoc, "floats", "elements", 1), isa.Lanes) + v.doc() + "\nWith each row, what lies ahead bytes behind it is asked for."
	fn := f.Func(name, text, asm.Typed("dst", "unsafe.Pointer"), asm.Int("dstStride"), asm.Int("dstStep"), asm.Typed("src", "unsafe.Pointer"), asm.Int("srcStride"),
		asm.Int("srcStep"), asm.Int("ahead"), asm.Int("n"))
	for _, load := range [][2]string{{"dst", "DI"}, {"dstStride", "R8"}, {"dstStep", "DX"}, {"src", "SI"}, {"srcStride", "R9"}, {"srcStep", "R13"}, {"ahead", "BX"}, {"n", "R12"}} {
		fn.Load(load[0], load[1])
	}
	// Instructions in front of the transposition and behind it, in terms of register 0 and the constants' from 8 on.
	before, after := k.wide, []string(nil)
	if isa.Lanes == 8 {
		before = k.narrow
	}
	if k.from == 4 {
		before, after = nil, before
	}
	table := ""
	if k.from == 4 && len(k.constant) > 0 {
		var words []uint32
		for _, c := range k.constant {
			w, err := strconv.ParseUint(c, 0, 32)
			if err != nil {
				panic(err)
			}
			words = append(words, uint32(w))
		}
		table = "constants" + k.name
		f.Data(table, words...)
	}
	fn.Loop("R12", func() {
		fn.I("MOVQ SI, AX")
		for r := range isa.Lanes {
			op, reg := rowMove(isa, k.from, r)
			fn.I("%s (AX), %s", op, reg)
			renamed(fn, isa, before, r)
			fn.I("PREFETCHT1 (AX)(BX*1)")
			fn.I("ADDQ R9, AX")
		}
		if isa.Lanes == 16 {
			shuffle16(fn)
		} else {
			shuffle8(fn)
		}
		for i := range k.constant {
			if k.from == 4 {
				fn.I("VBROADCASTSS %s, %s", asm.DataAt(table, 4*i), isa.R(constantAt(isa)+i))
			}
		}
		fn.I("MOVQ DI, AX")
		for c := range isa.Lanes {
			renamed(fn, isa, after, c)
			op, reg := rowMove(isa, k.to, c)
			if v.stream {
				op = v.store()
			}
			fn.I("%s %s, (AX)", op, reg)
			fn.I("ADDQ R8, AX")
		}
		fn.I("ADDQ R13, SI")
		fn.I("ADDQ DX, DI")
	})
	fn.Ret()
	return name
}

// constantAt is the first register of constants behind a transposition, which leaves those free that hold no rows.
func constantAt(isa asm.ISA) int {
	if isa.Lanes == 16 {
		return 16
	}
	return 10
}

var register = regexp.MustCompile(`\b([XYZ])(\d+)\b`)

// renamed emits instructions with register r in the place of 0, others for temporary ones (1 and 2) and constants (from 8 on).
func renamed(fn *asm.Func, isa asm.ISA, list []string, r int) {
	for _, i := range list {
		fn.I("%s", register.ReplaceAllStringFunc(i, func(name string) string {
			n, _ := strconv.Atoi(name[1:])
			switch {
			case n == 0:
				n = r
			case n < 8:
				n += 7
			default:
				n += constantAt(isa) - 8
			}
			return fmt.Sprint(name[:1], n)
		}))
	}
}

// rowMove is the instruction, and the register, that move one row of elements of so many bytes.
func rowMove(isa asm.ISA, bytes, r int) (op, reg string) {
	row := bytes * isa.Lanes
	reg = fmt.Sprint(map[int]string{64: "Z", 32: "Y", 16: "X", 8: "X"}[row], r)
	if row == 8 {
		return "VMOVQ", reg
	}
	return "VMOVUPS", reg
}
