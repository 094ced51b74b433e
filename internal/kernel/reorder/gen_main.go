//go:build ignore

// This program writes the assembly of package reorder.
package main

import (
	"github.com/carve-dev/carve/internal/kernel/asm"
)

func main() {
	asm.Main("reorder", asm.Table{Entries: entries, Imports: []string{"unsafe"}},
		asm.Unit{Base: "transpose", Arch: "amd64", Generate: func(f *asm.File) {
			transpose512(f)
			transpose256(f)
		}},
		asm.Unit{Base: "tiles", Arch: "amd64", Generate: func(f *asm.File) {
			tiles512(f)
			tiles256(f)
			rows(f)
			flush(f)
			fence(f)
		}},
		asm.Unit{Base: "lined", Arch: "amd64", Generate: func(f *asm.File) {
			runs(f)
			weld(f)
			partTiles(f)
			fourRows(f)
		}},
		asm.Unit{Base: "eights", Arch: "amd64", Generate: eights},
		asm.Unit{Base: "weave", Arch: "amd64", Generate: weaves},
		asm.Unit{Base: "cast", Arch: "amd64", Generate: func(f *asm.File) {
			f.Import("unsafe")
			for _, k := range casts {
				cast512(f, k, variant{})
				cast256(f, k)
			}
			castRows(f)
		}},
		asm.Unit{Base: "casttiles", Arch: "amd64", Generate: castTiles},
		asm.Unit{Base: "moves", Arch: "amd64", Generate: func(f *asm.File) {
			moveTiles(f)
			shortRows(f)
			shortWeaves(f)
		}},
		asm.Unit{Base: "lanes", Arch: "amd64", Generate: func(f *asm.File) {
			copy512(f)
			copy256(f)
			eights256(f)
			gather512(f)
			gather256(f)
			gatherEights(f)
			gatherLanes(f)
		}},
		asm.Unit{Base: "lanes", Arch: "arm64", Generate: func(f *asm.File) {
			neonTransposes(f)
			neonRows(f)
			neonCopies(f)
			neonGathers(f)
			neonWeaves(f)
		}},
		asm.Unit{Base: "cast", Arch: "arm64", Generate: func(f *asm.File) {
			f.Import("unsafe")
			for _, k := range casts {
				neonCast(f, k)
			}
			castTable(f, "NEON")
			f.Serve("castRows", asm.NEON(), castEights("NEON"))
		}},
	)
}

// entries are what plans call. Strides and steps are in bytes.
var entries = []asm.Entry{
	{Name: "tileSide", Doc: "returns the side of the tiles that transposeTiles and callTiles take.", Result: "int", Portable: "return 16"},
	{Name: "transposeTiles", Doc: "transposes n tiles of rows x cols, at most tileSide each, to rows of lanes floats.",
		Params:   "dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, rows, cols, lanes, n int",
		Portable: "portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, rows, cols, lanes, n)"},
	{Name: "callTiles", Doc: "transposes n whole tiles; see tiles.",
		Params:   "to traffic, dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, pairs, n int",
		Portable: "portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, 16, 16, 16, n)"},
	{Name: "lineSide", Doc: "returns the side of the tiles that callLines takes: lineFloats, or tileSide.", Result: "int", Portable: "return lineFloats"},
	{Name: "callLines", Doc: "is callTiles into caches, of tiles of lineSide each way.",
		Params:   "dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, pairs, n int",
		Portable: "portableTranspose(dst, dstStride, dstStep, src, srcStride, srcStep, 16, 16, 16, n)"},
	{Name: "streamTiles", Doc: "is callTiles of a matrix in memory to a result that goes past the caches, of tiles of lineFloats each way, where streamsTiles says so.",
		Params:   "dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, ahead, near, pairs, n int",
		Portable: `panic("reorder: no kernel streams tiles")`},
	{Name: "streamsTiles", Doc: "reports whether callTiles, for tiles of lineFloats each way, join and part have streaming stores.", Result: "bool", Portable: "return false"},
	{Name: "copyRows", Doc: "copies n rows of 16 floats of each block.",
		Params:   "to traffic, dst *float32, dstStride, dstBlock int, src *float32, srcStride, srcBlock, blocks, n int",
		Portable: "portableRows(dst, dstStride, dstBlock, src, srcStride, srcBlock, blocks, n)"},
	{Name: "flushLines", Doc: "copies some lines of each row past the caches, where streamsRows says so and tileSide is 16: to the one that ends 1 to 64 bytes behind dst and those behind it, from as many bytes behind src.",
		Params: "dst *float32, dstStride int, src *float32, srcStride, lines, rows int", Portable: `panic("reorder: no kernel flushes lines")`},
	{Name: "copyRuns", Doc: "copies rows of floats in whole cache lines but for their ends, where tileSide is 16 and streamsRows says so. Less than a line behind each row of src is read.",
		Params: "dst *float32, dstStride int, src *float32, srcStride, floats, rows int", Portable: `panic("reorder: no kernel copies runs")`},
	{Name: "weldRows", Doc: "writes rows of 16 floats or more one behind the other in whole cache lines, where tileSide is 16 and streamsRows says so. The last 16 of a row are read as a whole.",
		Params: "dst, src *float32, srcRow, srcBlock, floats, rows int", Portable: `panic("reorder: no kernel welds rows")`},
	{Name: "partTiles", Doc: "is callTiles, of tiles of 16 by 16, by loads of parts of rows, where weldRows exists.",
		Params: "dst *float32, dstStride, dstStep int, src *float32, srcStride, srcStep, n int", Portable: `panic("reorder: no kernel takes parts")`},
	{Name: "fourRows", Doc: "writes one to four rows of 16 floats as four columns of 16 rows, the last of them again where there are fewer, where weldRows exists.",
		Params: "dst *float32, dstStride int, src *float32, srcStride, rows int", Portable: `panic("reorder: no kernel takes parts")`},
	{Name: "streamsRows", Doc: "reports whether copyRows has streaming stores.", Result: "bool", Portable: "return false"},
	{Name: "fence", Doc: "comes after streaming stores.", Portable: "// Ordinary stores need none."},
	{Name: "copyLanes", Doc: "copies n rows of lanes floats and zeros behind them up to stored.",
		Params:   "dst *float32, dstStride int, src *float32, srcStride, lanes, stored, n int",
		Portable: "portableCopy(dst, dstStride, src, srcStride, lanes, stored, n)"},
	{Name: "moveEights", Doc: "copies n rows of 8 floats.",
		Params: "to traffic, dst *float32, dstStride int, src *float32, srcStride, n int", Portable: "portableEights(dst, dstStride, src, srcStride, n)"},
	{Name: "hasEights", Doc: "reports whether planesToEights, eightsToPlanes, pairEights and partEights exist. All have streaming stores.", Result: "bool",
		Portable: "return false"},
	{Name: "planesToEights", Doc: "transposes 8 rows of 16n floats to 16n rows of 8 that adjoin, and asks for what lies ahead bytes behind.",
		Params: "to traffic, dst, src *float32, srcStride, ahead, n int", Portable: noEights},
	{Name: "eightsToPlanes", Doc: "transposes 16n rows of 8 floats that adjoin to 8 rows of 16n.",
		Params: "to traffic, dst *float32, dstStride int, src *float32, n int", Portable: noEights},
	{Name: "pairEights", Doc: "makes n rows of 16 floats of rows of 8 at a and b.",
		Params: "to traffic, dst *float32, dstStride int, a, b *float32, n int", Portable: noEights},
	{Name: "partEights", Doc: "takes n rows of 16 floats apart to rows of 8 at a and b.",
		Params: "to traffic, a, b, src *float32, srcStride, n int", Portable: noEights},
	{Name: "hasFewPlanes", Doc: "reports whether planesToRows and rowsToPlanes exist.", Result: "bool", Portable: "return false"},
	{Name: "planesToRows", Doc: "transposes 8 rows of 16n floats to 16n rows of 8.", Params: "dst *float32, dstStride int, src *float32, srcStride, n int", Portable: noEights},
	{Name: "rowsToPlanes", Doc: "transposes 16n rows of 8 floats to 8 rows of 16n.", Params: "dst *float32, dstStride int, src *float32, srcStride, n int", Portable: noEights},
	{Name: "gatherLanes", Doc: "makes n pixels of a block of w lanes, 8 or 16, from two.",
		Params: "w int, dst, a, b *float32, m *mixture, keep, n int", Portable: "portableGather(w, dst, a, b, m, keep, n)"},
	{Name: "weaveLanes", Doc: "returns how many pixels join and part take at a time, 0 where they do not exist.", Result: "int", Portable: "return 0"},
	{Name: "join", Doc: "makes pixels of two to four floats from as many planes, n times weaveLanes of them.",
		Params: "to traffic, planes int, dst, src *float32, srcStride, n int", Portable: `panic("reorder: no kernel joins planes")`},
	{Name: "part", Doc: "makes two to four planes from pixels of as many floats, n times weaveLanes of them.",
		Params: "to traffic, planes int, dst *float32, dstStride int, src *float32, n int", Portable: `panic("reorder: no kernel parts pixels")`},
	{Name: "castRows", Doc: "changes the type of n rows of lanes elements.",
		Params:   "k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int",
		Portable: "portableCast(k, dst, dstStride, src, srcStride, lanes, n)"},
	{Name: "streamCasts", Doc: "is castRows past the caches, of rows of whole cache lines of the result, where castSide is 16.",
		Params:   "k castKind, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lanes, n int",
		Portable: `panic("reorder: no kernel streams casts")`},
	{Name: "castSide", Doc: "returns the side of the tiles that castTiles takes, 0 where it does not exist.", Result: "int", Portable: "return 0"},
	{Name: "castTiles", Doc: "transposes n whole tiles of elements and changes their type; tiles of 16 by 16 to floats have streaming stores.",
		Params:   "k castKind, to traffic, dst unsafe.Pointer, dstStride, dstStep int, src unsafe.Pointer, srcStride, srcStep, ahead, n int",
		Portable: `panic("reorder: no kernel casts tiles")`},
	{Name: "hasMoves", Doc: "reports whether moveTiles, joinShort and partShort exist.", Result: "bool", Portable: "return false"},
	{Name: "moveTiles", Doc: "transposes n whole tiles of elements of one or two bytes; see tileShape.",
		Params:   "k castKind, t tileShape, dst unsafe.Pointer, dstStride, dstStep int, src unsafe.Pointer, srcStride, srcStep, ahead, n int",
		Portable: `panic("reorder: no kernel moves tiles")`},
	{Name: "joinShort", Doc: "makes pixels of two to four elements of one or two bytes from as many planes, n times 32 bytes of each.",
		Params: "k castKind, planes int, dst, src unsafe.Pointer, srcStride, n int", Portable: `panic("reorder: no kernel joins planes")`},
	{Name: "partShort", Doc: "makes two to four planes from pixels of as many elements of one or two bytes, n times 32 bytes of each.",
		Params: "k castKind, planes int, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, n int", Portable: `panic("reorder: no kernel parts pixels")`},
	{Name: "joinWide", Doc: "is joinShort of n times 64 bytes of each plane.",
		Params: "k castKind, planes int, dst, src unsafe.Pointer, srcStride, n int", Portable: `panic("reorder: no kernel joins planes")`},
	{Name: "partWide", Doc: "is partShort of n times 64 bytes of each plane.",
		Params: "k castKind, planes int, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, n int", Portable: `panic("reorder: no kernel parts pixels")`},
	{Name: "copyShort", Doc: "copies n rows of 8, 16 or 32 bytes.",
		Params: "bytes int, dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, n int", Portable: "portableShort(bytes, dst, dstStride, src, srcStride, n)"},
}

const noEights = `panic("reorder: no kernel for blocks of 8")`

// lowBits emits mask = the low count bits, count a register with 0 to 16; it clobbers CX.
func lowBits(fn *asm.Func, count, mask, k string) {
	fn.I("MOVQ %s, CX", count)
	fn.I("MOVL $1, %s", mask)
	fn.I("SHLL CX, %s", mask)
	fn.I("DECL %s", mask)
	fn.I("KMOVW %s, %s", mask, k)
}
