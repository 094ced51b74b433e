package jpeg

// Constants of the transform, times 2^13: sums and differences of √2 cos(kπ/16).
const (
	c0_298 = 2446
	c0_390 = 3196
	c0_541 = 4433
	c0_765 = 6270
	c0_899 = 7373
	c1_175 = 9633
	c1_501 = 12299
	c1_847 = 15137
	c1_961 = 16069
	c2_053 = 16819
	c2_562 = 20995
	c3_072 = 25172
)

// inverse8 is the inverse cosine transform of 8 numbers, times √8, in the factors of Loeffler, Ligtenberg and Moschytz
// (doi:10.1109/ICASSP.1989.266596). Results have 13 more bits behind the point, before which shift of them are rounded away.
func inverse8(x [8]int32, shift int) [8]int32 {
	r := (x[2] + x[6]) * c0_541
	low, high := r-x[6]*c1_847, r+x[2]*c0_765
	sum, difference := (x[0]+x[4])<<13, (x[0]-x[4])<<13
	even := [4]int32{sum + high, difference + low, difference - low, sum - high}

	r71, r53, r73, r51 := -(x[7]+x[1])*c0_899, -(x[5]+x[3])*c2_562, -(x[7]+x[3])*c1_961, -(x[5]+x[1])*c0_390
	r = (x[7] + x[3] + x[5] + x[1]) * c1_175
	r73, r51 = r73+r, r51+r
	odd := [4]int32{x[1]*c1_501 + r71 + r51, x[3]*c3_072 + r53 + r73, x[5]*c2_053 + r53 + r51, x[7]*c0_298 + r71 + r73}

	var y [8]int32
	half := int32(1) << (shift - 1)
	for k := range 4 {
		y[k], y[7-k] = (even[k]+odd[k]+half)>>shift, (even[k]-odd[k]+half)>>shift
	}
	return y
}

// inverse transforms the coefficients of a block, by columns with two more bits, then by rows, and writes the samples.
func inverse(dst []byte, stride int, block []int16, quant *[64]uint16) {
	var mid [64]int32
	for x := range 8 {
		var column [8]int32
		for y := range column {
			column[y] = int32(block[8*y+x]) * int32(quant[8*y+x])
		}
		for y, v := range inverse8(column, 13-2) {
			mid[8*y+x] = v
		}
	}
	for y := range 8 {
		for x, v := range inverse8([8]int32(mid[8*y:]), 13+2+3) {
			dst[y*stride+x] = clip(v + 128)
		}
	}
}

func clip(v int32) byte { return byte(min(max(v, 0), 255)) }
