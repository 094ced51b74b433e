package convert

// Offsets of both layouts are sums over the dims, so a reorder needs one table per dim and layout instead of a division per
// axis and element. Elements are moved in tiles of the two dims that are innermost in the target and in the source: either
// side's cache lines are used up while they are in the first-level cache.

// tileSide is the side of a tile, in elements; tableMax bounds the tables, in entries.
const (
	tileSide = 32
	tableMax = 1 << 22
	maxRank  = 8 // of described layouts
)

// tables is a reorder by offsets.
type tables struct {
	src, dst [maxRank][]int // offset by index, per dim
	outer    []int          // dims other than the two inner ones
	count    [maxRank]int
	x, y     int // innermost dims of the target and of the source; y is -1 where they are the same
	cutsX    int // tiles along x and y
	cutsY    int
}

// tableReorder handles every pair of layouts of up to 8 dims, for elements of 1, 2, 4, 8 and 16 bytes; nil for others.
func tableReorder(src, dst strided, size int) *reorderer {
	rank := len(dst.dims)
	if rank == 0 || rank > maxRank {
		return nil
	}
	sum := 0
	for _, d := range dst.dims {
		sum += d
	}
	if sum > tableMax {
		return nil
	}
	t := newTables(&src, &dst)
	items := t.cutsX * t.cutsY
	for _, d := range t.outer {
		items *= t.count[d]
	}
	var move func(d, s []byte, lo, hi int)
	switch size {
	case 1:
		move = tableMove(t, tableTile[uint8])
		if t.fours() {
			move = tableMove(t, foursTile)
		}
	case 2:
		move = tableMove(t, tableTile[uint16])
	case 4:
		move = tableMove(t, tableTile[uint32])
	case 8:
		move = tableMove(t, tableTile[uint64])
	case 16:
		move = tableMove(t, tableTile[[2]uint64])
	default:
		return nil
	}
	r := newReorderer(items, max(1, product(dst.dims)*size/items), move)
	if dst.elements > product(dst.dims) {
		r.zero = true
	}
	return r
}

func newTables(src, dst *strided) *tables {
	t := &tables{y: -1, cutsY: 1}
	for i, n := range dst.dims {
		t.count[i] = n
		t.src[i], t.dst[i] = make([]int, n), make([]int, n)
		for k := range n {
			t.src[i][k], t.dst[i][k] = src.along(i, k), dst.along(i, k)
		}
	}
	t.x = innermost(dst)
	t.cutsX = (t.count[t.x] + tileSide - 1) / tileSide
	if y := innermost(src); y != t.x {
		t.y = y
		t.cutsY = (t.count[y] + tileSide - 1) / tileSide
	}
	for i := range dst.dims {
		if i != t.x && i != t.y {
			t.outer = append(t.outer, i)
		}
	}
	return t
}

// innermost returns the dim of the innermost axis that has more than one step.
func innermost(s *strided) int {
	for k := len(s.axes) - 1; k > 0; k-- {
		if s.axes[k].count > 1 && s.dims[s.axes[k].dim] > 1 {
			return s.axes[k].dim
		}
	}
	return s.axes[0].dim
}

// tableMove returns the move of tiles, each by moveTile: an item is a tile of one index of the outer dims, the tiles varying fastest.
func tableMove[T any](t *tables, moveTile func(t *tables, to, from []T, toAt, fromAt, tile int)) func(d, s []byte, lo, hi int) {
	return func(d, s []byte, lo, hi int) {
		to, from := elements[T](d), elements[T](s)
		var index [maxRank]int
		tiles := t.cutsX * t.cutsY
		at, tile := lo/tiles, lo%tiles
		toAt, fromAt := 0, 0
		for k := len(t.outer) - 1; k >= 0; k-- {
			i := t.outer[k]
			index[i] = at % t.count[i]
			at /= t.count[i]
			toAt += t.dst[i][index[i]]
			fromAt += t.src[i][index[i]]
		}
		for ; lo < hi; lo++ {
			moveTile(t, to, from, toAt, fromAt, tile)
			if tile++; tile < tiles {
				continue
			}
			tile = 0
			for k := len(t.outer) - 1; k >= 0; k-- {
				i := t.outer[k]
				old := index[i]
				if index[i]++; index[i] == t.count[i] {
					index[i] = 0
				}
				toAt += t.dst[i][index[i]] - t.dst[i][old]
				fromAt += t.src[i][index[i]] - t.src[i][old]
				if index[i] > 0 {
					break
				}
			}
		}
	}
}

// tableTile moves one tile of elements whose outer dims contribute toAt and fromAt.
func tableTile[T any](t *tables, to, from []T, toAt, fromAt, tile int) {
	x0 := tile % t.cutsX * tileSide
	x1 := min(x0+tileSide, t.count[t.x])
	dx, sx := t.dst[t.x][x0:x1], t.src[t.x][x0:x1]
	sx = sx[:len(dx)]
	if t.y < 0 {
		for k, o := range dx {
			to[toAt+o] = from[fromAt+sx[k]]
		}
		return
	}
	y0 := tile / t.cutsX * tileSide
	y1 := min(y0+tileSide, t.count[t.y])
	for y := y0; y < y1; y++ {
		dy, sy := toAt+t.dst[t.y][y], fromAt+t.src[t.y][y]
		for k, o := range dx {
			to[dy+o] = from[sy+sx[k]]
		}
	}
}
