package quant

// Dense convolutions of 3 x 3 taps, with stride 1, by Winograd's minimal filtering algorithm F(2x2, 3x3) (Lavin and Gray, Fast Algorithms for
// Convolutional Neural Networks, 2016): a tile of 2 x 2 sums is made of 4 x 4 pixels with 16 products for each two channels in place of 36. In integers
// all of it is exact: pixels become integers of 11 bits with their sign, Bᵀ d B, weights ones of 13, (2G) g (2G)ᵀ, and what products of these make is
// four times the sums. They hold in 32 bits as far as so many channels have them: that is checked (SquareChannels). Each step is one of words, and AVX2 multiplies as
// many pairs of words in a cycle as products of bytes are added in pairs.

// SquarePoints is the number of products of a tile and two channels.
const SquarePoints = 16

// SquareChannels is the most channels of which four times a sum of 9 products of bytes each holds in 32 bits, and SquareChannelsAbout where weights count from zero
// points, which may make integers of 9 bits with their sign of them.
const (
	SquareChannels      = 1<<31/(4*9*255*128) - 1
	SquareChannelsAbout = 1<<31/(4*9*255*255) - 1
)

// Squares is a convolution of 3 x 3 taps. It is immutable while convolutions are made.
type Squares struct {
	Channels int // of a pixel, in whole groups of 16, at most SquareChannels, or SquareChannelsAbout
	Panels   int // of results
	Line     int // distance of rows of pixels, in bytes
	Signed   bool
	Weights  []int16 // as Kernels.SquareWeights makes them
}

// squareParams is what kernels read beside their pointers. The generator knows the offsets of the fields. Distances are in bytes.
type squareParams struct {
	line, pixel int // of the image
	groups      int // of 16 channels
	point, tile int // distances of points and of tiles of transformed pixels
	pairs       int // of channels
	weights     int // distance of points of a panel's weights
	sums        int // distance of points of products
	to, below   int // distances of the sums of pixels, and of lines of these
}

// Squares reports whether there are kernels by which convolutions of 3 x 3 taps take less time so: of Squares.
func (k Kernels) Squares() bool { return k.by == paired }

// SquareWeights transforms weights in panels, as those of products are: [panels][3][3][channels/4][16][4], to [panels][SquarePoints][channels/2][16][2].
// They count from the zero points of their columns, nil for 0.
func (k Kernels) SquareWeights(packed []byte, channels, panels int, signed bool, zeros []int32) []int16 {
	quads := channels / 4
	packed, dst := packed[:panels*PanelBytes(9*quads)], make([]int16, panels*SquarePoints*channels*Panel)
	var near [SquarePoints][4 * Panel]int16 // points of a panel may lie so far apart that they take each other's place in the first-level cache
	for p := range panels {
		for quad := range quads {
			squareWeights(k.set, signed, &near[0][0], &packed[p*PanelBytes(9*quads)+quad*4*Panel], quads*4*Panel)
			for t := range near {
				if zeros != nil {
					aboutZeros(near[t][:], zeros[p*Panel:][:Panel], t)
				}
				copy(dst[((p*SquarePoints+t)*quads+quad)*4*Panel:], near[t][:])
			}
		}
	}
	return dst
}

// aboutZeros takes what a point has of the zero points of 16 columns off the transformed weights of four channels: the transform is linear.
func aboutZeros(words []int16, zeros []int32, point int) {
	ones := [4]int32{2, 3, 1, 2} // 2G times three ones
	for i := range words {
		words[i] -= int16(ones[point/4] * ones[point%4] * zeros[i/2%Panel])
	}
}

func genericSquareWeights(signed bool, dst *int16, src *byte, tap int) {
	twice := func(a, b, c int32) [4]int32 { return [4]int32{2 * a, a + b + c, a - b + c, 2 * c} } // G times three weights
	for i := range 4 * Panel {
		var lines [3][4]int32
		for x := range lines {
			g := func(y int) int32 { return number(*advance(src, (3*y+x)*tap+i), signed) }
			lines[x] = twice(g(0), g(1), g(2))
		}
		at := i/2%2*2*Panel + i/4*2 + i%2 // two of a quad's four are a pair
		for y := range 4 {
			for x, v := range twice(lines[0][y], lines[1][y], lines[2][y]) {
				*advance(dst, (4*y+x)*4*Panel+at) = int16(v)
			}
		}
	}
}

// PixelWords returns how many words the pixels of so many tiles become.
func (s *Squares) PixelWords(tiles int) int { return SquarePoints * tiles * s.Channels }

// params returns what kernels of so many tiles read.
func (s *Squares) params(tiles int) squareParams {
	return squareParams{line: s.Line, pixel: s.Channels, groups: s.Channels / Panel, point: 2 * tiles * s.Channels, tile: 2 * s.Channels, pairs: s.Channels / 2,
		weights: 2 * s.Channels * Panel, sums: 4 * tiles * Panel}
}

// SquarePixels transforms a row of n tiles of pixels, the first of which are those of src: as tiles from number first on of dst, which has so many, [SquarePoints][tiles][channels].
func (k Kernels) SquarePixels(s *Squares, dst []int16, src []byte, first, n, tiles int) {
	if n <= 0 {
		return
	}
	src, dst = src[:3*s.Line+(2*n+2)*s.Channels], dst[:s.PixelWords(tiles)]
	if first < 0 || first+n > tiles || s.Line < 0 || s.Channels%Panel != 0 {
		panic("quant: tiles do not fit")
	}
	p, most := s.params(tiles), max(1, callElements/(Panel*s.Channels))
	for at := 0; at < n; at += most {
		squarePixels(k.set, !s.Signed, &p, &dst[(first+at)*s.Channels], &src[2*at*s.Channels], min(most, n-at))
	}
}

func genericSquarePixels(signed bool, p *squareParams, dst *int16, src *byte, n int) {
	channels := 16 * p.groups
	for t := range n {
		for ch := range channels {
			var lines [4][4]int32
			for x := range 4 {
				var d [4]int32
				for y := range d {
					d[y] = number(*advance(src, y*p.line+(2*t+x)*p.pixel+ch), signed)
				}
				lines[0][x], lines[1][x], lines[2][x], lines[3][x] = d[0]-d[2], d[1]+d[2], d[2]-d[1], d[1]-d[3]
			}
			for y, d := range lines {
				for x, v := range [4]int32{d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]} {
					*advance(dst, ((4*y+x)*p.point+t*p.tile)/2+ch) = int16(v)
				}
			}
		}
	}
}

// SquareProducts writes the products of so many tiles of transformed pixels and a panel: [SquarePoints][tiles][16].
func (k Kernels) SquareProducts(s *Squares, dst []int32, pixels []int16, panel, tiles int) {
	if tiles <= 0 {
		return
	}
	c, a := first(dst, SquarePoints*tiles*Panel), first(pixels, s.PixelWords(tiles))
	b := first(s.Weights[panel*SquarePoints*s.Channels*Panel:], SquarePoints*s.Channels*Panel)
	p := s.params(tiles)
	parts := (tiles + Height - 1) / Height // of as many rows, or one more
	height, more := tiles/parts, tiles%parts
	points := min(max(1, 4*callQuads/(s.Channels*tiles)), SquarePoints) // of a call
	for at := 0; at < SquarePoints; at += points {
		n, row := min(points, SquarePoints-at), 0
		for _, x := range [2][2]int{{height + 1, more}, {height, parts - more}} {
			for left := x[1]; left > 0; {
				some := min(left, max(1, 4*callQuads/(s.Channels*x[0])))
				squareProducts(k.set, x[0], &p, advance(a, (at*tiles+row)*s.Channels), advance(b, at*s.Channels*Panel), advance(c, (at*tiles+row)*Panel), n, some)
				left -= some
				row += some * x[0]
			}
		}
	}
}

func genericSquareProducts(rows int, p *squareParams, a, b *int16, c *int32, points int) {
	for i := range points {
		for r := range rows {
			x, to := view(advance(a, (i*p.point+r*p.tile)/2), 2*p.pairs), view(advance(c, i*p.sums/4+r*Panel), Panel)
			clear(to)
			for k, v := range x {
				for j := range to {
					to[j] += int32(v) * int32(*advance(b, i*p.weights/2+k/2*2*Panel+2*j+k%2))
				}
			}
		}
	}
}

// SquareSums writes the sums of a row of n tiles, from number first on of so many, whose products are given, and start: of columns [0, columns) of two lines of pixels, of which only the first
// may be asked for. Pixels lie ld apart in dst, lines of columns pixels one behind the other.
func (k Kernels) SquareSums(s *Squares, dst []int32, ld int, products, start []int32, first, tiles, columns, lines int) {
	n := (columns + 1) / 2
	if n <= 0 || lines <= 0 {
		return
	}
	_, products, start = dst[(lines*columns-1)*ld+Panel-1], products[:SquarePoints*tiles*Panel], start[:Panel]
	if first < 0 || first+n > tiles || ld < Panel {
		panic("quant: tiles do not fit")
	}
	p := s.params(tiles)
	p.to, p.below = 4*ld, 4*ld*columns
	whole := columns / 2
	if lines == 1 {
		whole = 0
	}
	if whole > 0 {
		squareSums(k.set, &p, &dst[0], &products[first*Panel], &start[0], whole)
	}
	p.to, p.below = 4*Panel, 8*Panel
	for t := whole; t < n; t++ {
		var near [4 * Panel]int32
		squareSums(k.set, &p, &near[0], &products[(first+t)*Panel], &start[0], 1)
		for y := range lines {
			for x := range min(2, columns-2*t) {
				copy(dst[(y*columns+2*t+x)*ld:][:Panel], near[(2*y+x)*Panel:])
			}
		}
	}
}

func genericSquareSums(p *squareParams, dst, src, start *int32, n int) {
	for t := range n {
		for j := range Panel {
			var lines [4][2]int32
			for y := range lines {
				var m [4]int32
				for x := range m {
					m[x] = *advance(src, (4*y+x)*p.sums/4+t*Panel+j)
				}
				lines[y] = [2]int32{m[0] + m[1] + m[2], m[1] - m[2] - m[3]}
			}
			for x := range 2 {
				for y, v := range [2]int32{lines[0][x] + lines[1][x] + lines[2][x], lines[1][x] - lines[2][x] - lines[3][x]} {
					*advance(dst, ((2*t+x)*p.to+y*p.below)/4+j) = v>>2 + *advance(start, j)
				}
			}
		}
	}
}
