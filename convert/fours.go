package convert

import "encoding/binary"

// Weights of eight bits are multiplied four at a time, so that four numbers of one column, whose rows lie apart in the source, are
// neighbours in the target: such tiles are moved row by row of four, with one store for each.

// four is how many elements are stored at once.
const four = 4

// fours reports whether the elements along x lie next to each other in the target, four by four, and those along y in the source.
func (t *tables) fours() bool {
	if t.y < 0 {
		return false
	}
	for i, at := range t.dst[t.x] {
		if i%four > 0 && at != t.dst[t.x][i-1]+1 {
			return false
		}
	}
	for i, at := range t.src[t.y] {
		if i > 0 && at != t.src[t.y][i-1]+1 {
			return false
		}
	}
	return true
}

// foursTile is tableTile for elements of which fours holds.
func foursTile(t *tables, to, from []uint8, toAt, fromAt, tile int) {
	x0, y0 := tile%t.cutsX*tileSide, tile/t.cutsX*tileSide
	x1, y1 := min(x0+tileSide, t.count[t.x]), min(y0+tileSide, t.count[t.y])
	if (x1-x0)%four > 0 {
		tableTile(t, to, from, toAt, fromAt, tile)
		return
	}
	dy := t.dst[t.y][y0:y1]
	for x := x0; x < x1; x += four {
		var rows [four][]uint8
		for k, at := range t.src[t.x][x:][:four] {
			rows[k] = from[fromAt+at+t.src[t.y][y0]:][:len(dy)]
		}
		a, b, c, d := rows[0], rows[1][:len(rows[0])], rows[2][:len(rows[0])], rows[3][:len(rows[0])]
		out := to[toAt+t.dst[t.x][x]:]
		for y := range a {
			binary.LittleEndian.PutUint32(out[dy[y]:], uint32(a[y])|uint32(b[y])<<8|uint32(c[y])<<16|uint32(d[y])<<24)
		}
	}
}
