package reference

// twister is the Mersenne Twister MT19937 (DOI 10.1145/272991.272995), from which ONNX's own implementation of Dropout draws: a node with a
// seed drops the same elements here.
type twister struct {
	state [624]uint32
	next  int
}

// newTwister returns a generator that is seeded with a number of 32 bits.
func newTwister(seed uint32) *twister {
	t := &twister{}
	for i := range t.state {
		t.state[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	t.next = len(t.state)
	return t
}

// word returns the next 32 bits.
func (t *twister) word() uint32 {
	const apart, matrix = 397, 0x9908b0df
	n := len(t.state)
	if t.next == n {
		for i := range t.state {
			y := t.state[i]&0x80000000 | t.state[(i+1)%n]&0x7fffffff
			x := t.state[(i+apart)%n] ^ y>>1
			if y&1 != 0 {
				x ^= matrix
			}
			t.state[i] = x
		}
		t.next = 0
	}
	y := t.state[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Float64 returns a number in [0, 1) of 53 random bits.
func (t *twister) Float64() float64 {
	a, b := t.word()>>5, t.word()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53)
}
