package quant

import "math"

// Filters are the weights of a depthwise convolution whose sums are rounded as they are made, and all that belongs to its channels, in
// the order of the kernels. It is immutable.
type Filters struct {
	channels, fours, pairs int
	blocks                 []filters
	limits                 limits
}

// filters are those of some channels.
type filters struct {
	first, channels int
	weights         []int8
	start           []int32
	factors, bias   []float32
}

// weighParams is what a kernel reads beside its pointers. The generator knows the offsets of the fields.
type weighParams struct {
	offsets       *int
	weights       *int8
	pairs, fours  int // of taps
	step, ldd     int // distances of windows and of results, in bytes
	start         *int32
	factors, bias *float32
	rounding      *limits
}

// leastChannels is the fewest channels of a vector.
const leastChannels = 16

// NewFilters packs weights w[channel·taps+tap] of pixels that are unsigned; sums begin with start, and factors and addends are those of
// the rounding. ok is false where kernels do not take the weights: fewer than 16 channels, or those beyond int8.
func NewFilters(channels, taps int, w []int16, start []int32, r *Rounding) (f *Filters, ok bool) {
	if channels < leastChannels || taps == 0 {
		return nil, false
	}
	for _, x := range w[:channels*taps] {
		if x < math.MinInt8 || x > math.MaxInt8 {
			return nil, false
		}
	}
	f = &Filters{channels: channels, fours: (taps + 1) / 4, limits: r.limits}
	if taps%4 == 1 || taps%4 == 2 {
		f.pairs = 1
	}
	for at := 0; at < channels; {
		wide := leastChannels // a vector that holds what is left, or the widest that the channels fill
		for wide < 64 && wide < channels-at && 2*wide <= channels {
			wide *= 2
		}
		f.blocks = append(f.blocks, f.pack(min(at, channels-wide), wide, taps, w, start, r))
		at += wide
	}
	return f, true
}

// pack returns the filters of n channels from first on.
func (f *Filters) pack(first, n, taps int, w []int16, start []int32, r *Rounding) filters {
	b := filters{first: first, channels: n, weights: make([]int8, 4*n*(f.fours+f.pairs)), start: make([]int32, n),
		factors: make([]float32, n), bias: make([]float32, n)}
	for i := range n {
		ch := first + i%(n/4)/4*16 + i/(n/4)*4 + i%4 // the sums of four channels of each quarter stand in a vector
		b.start[i], b.factors[i], b.bias[i] = start[ch], r.factors[ch], r.bias[ch]
		for tap := range taps {
			b.weights[4*n*(tap/4)+4*i+tap%4] = int8(w[ch*taps+tap])
		}
	}
	return b
}

// Taps returns how many offsets Weigh takes: the taps, rounded up to pairs. Those behind the taps have no weight.
func (f *Filters) Taps() int { return 4*f.fours + 2*f.pairs }

// Weighs reports whether there are kernels that take Filters: Weigh.
func (k Kernels) Weighs() bool { return k.by == vnni }

// Weigh writes the integers of the sums of n windows: window i and channel c have Σ a[i·step+offsets[tap]+c]·weight[tap, c], and go to
// dst[i·ldd+c]. It panics where Weighs is false.
func (k Kernels) Weigh(f *Filters, dst []byte, ldd int, a []byte, step int, offsets []int, n int) {
	if n <= 0 {
		return
	}
	if !k.Weighs() || ldd < 0 || step < 0 {
		panic("quant: no kernel weighs such taps")
	}
	far := 0
	a, offsets = a[:len(a):len(a)], offsets[:f.Taps()]
	for _, o := range offsets {
		_ = a[o:]
		far = max(far, o)
	}
	_, _ = a[far+(n-1)*step+f.channels-1], dst[(n-1)*ldd+f.channels-1]
	p := weighParams{offsets: &offsets[0], pairs: f.pairs, fours: f.fours, step: step, ldd: ldd, rounding: &f.limits}
	most := max(1, callQuads/(16*(f.fours+f.pairs))) // windows of a call
	for i := range f.blocks {
		b := &f.blocks[i]
		p.weights, p.start, p.factors, p.bias = &b.weights[0], &b.start[0], &b.factors[0], &b.bias[0]
		for at := 0; at < n; at += most {
			weigh(k.set, b.channels, &p, &a[at*step+b.first], &dst[at*ldd+b.first], min(most, n-at))
		}
	}
}
