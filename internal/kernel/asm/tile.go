package asm

import "fmt"

// Instructions of AMX, which Go's assembler lacks. Tile registers are numbered from 0 to 7; a place in memory is a general register and, of tiles, the
// register with the distance of rows in bytes.

// TileProduct is an instruction that adds the products of two tiles to a third.
type TileProduct struct {
	prefix, opcode byte
	// Name is that of the instruction.
	Name string
}

// The products: of integers of 8 bits, the first operand's signedness before the second's, and of bfloat16.
var (
	SignedUnsigned = TileProduct{f3, 0x5e, "TDPBSUD"}
	UnsignedSigned = TileProduct{p66, 0x5e, "TDPBUSD"}
	BFloat16Tiles  = TileProduct{f3, 0x5c, "TDPBF16PS"}
)

// Prefixes, as VEX and EVEX number them.
const (
	p66 = 1
	f3  = 2
	f2  = 3
)

// ConfigureTiles emits LDTILECFG of the 64 bytes at a register, which clears all tiles.
func (fn *Func) ConfigureTiles(at string) {
	n := generalNumber(at)
	fn.vexTile(0, 0x49, n, 0, 0, memory(0, n, -1)...)
}

// ReleaseTiles emits TILERELEASE.
func (fn *Func) ReleaseTiles() { fn.vexTile(0, 0x49, 0, 0, 0, 0xc0) }

// ClearTile emits TILEZERO.
func (fn *Func) ClearTile(tile int) { fn.vexTile(f2, 0x49, 0, 0, 0, 0xc0|tileNumber(tile)<<3) }

// LoadTile emits TILELOADD of rows at a register, stride bytes apart.
func (fn *Func) LoadTile(at, stride string, tile int) {
	n, x := generalNumber(at), generalNumber(stride)
	fn.vexTile(f2, 0x4b, n, x, 0, memory(tileNumber(tile), n, int(x))...)
}

// StoreTile emits TILESTORED.
func (fn *Func) StoreTile(tile int, at, stride string) {
	n, x := generalNumber(at), generalNumber(stride)
	fn.vexTile(f3, 0x4b, n, x, 0, memory(tileNumber(tile), n, int(x))...)
}

// MultiplyTiles emits a product of tiles a and b, which is added to tile sum.
func (fn *Func) MultiplyTiles(p TileProduct, a, b, sum int) {
	fn.vexTile(p.prefix, p.opcode, 0, 0, tileNumber(b), 0xc0|tileNumber(sum)<<3|tileNumber(a))
}

// vexTile emits an instruction of the map 0F38 with registers rm and index, of which the upper bits stand in front, and v; tail is what follows the
// opcode.
func (fn *Func) vexTile(prefix, opcode, rm, index, v byte, tail ...byte) {
	inverted := byte(0xe0) ^ rm>>3<<5 ^ index>>3<<6
	fn.Bytes(append([]byte{0xc4, inverted | 2, (15-v)<<3 | prefix, opcode}, tail...)...)
}

// memory returns the bytes that name a place in memory: a base with a displacement of 0, and an index where it is not negative.
func memory(reg, base byte, index int) []byte {
	const hasIndex, displacement = 4, 0x40
	if index < 0 {
		if base&7 == hasIndex {
			panic("asm: a base that needs an index")
		}
		return []byte{displacement | reg<<3 | base&7, 0}
	}
	return []byte{displacement | reg<<3 | hasIndex, byte(index)&7<<3 | base&7, 0}
}

func tileNumber(tile int) byte {
	if tile < 0 || tile > 7 {
		panic(fmt.Sprintf("asm: there is no tile register %d", tile))
	}
	return byte(tile)
}

// generalNumber returns the number of a general register.
func generalNumber(name string) byte {
	for i, n := range [...]string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"} {
		if n == name && n != "SP" {
			return byte(i)
		}
	}
	panic(fmt.Sprintf("asm: %q is no general register to address by", name))
}
