package jpeg

// huffman is a table of codes of up to 16 bits. Codes of up to 8 bits are looked up.
type huffman struct {
	values []byte
	fast   [256]uint16 // length<<8 | value by the next 8 bits, 0 for longer codes
	end    [17]int32   // behind the last code of that length, 0 where there is none
	first  [17]int32   // index of a length's first value, less its first code
}

func (d *decoder) huffmanTables(b []byte) error {
	for len(b) > 0 {
		class, id := b[0]>>4, b[0]&15
		if class > 1 || id > 3 || len(b) < 17 {
			return ErrFormat
		}
		counts, n := b[1:17], 0
		for _, k := range counts {
			n += int(k)
		}
		if b = b[17:]; n > 256 || n > len(b) {
			return ErrFormat
		}
		if !d.tables[class][id].set(counts, b[:n]) {
			return ErrFormat
		}
		b = b[n:]
	}
	return nil
}

// set numbers the codes, and reports whether they fit in their lengths.
func (t *huffman) set(counts, values []byte) bool {
	*t = huffman{values: values}
	code, k := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		t.first[length] = k - code
		for range counts[length-1] {
			if length <= 8 {
				for i := range int32(1) << (8 - length) {
					if at := code<<(8-length) + i; at < 256 {
						t.fast[at] = uint16(length<<8) | uint16(values[k])
					}
				}
			}
			code++
			k++
			t.end[length] = code
		}
		if code > 1<<length {
			return false
		}
		code <<= 1
	}
	return true
}

// bitReader reads the bits of a scan. Behind a marker, or the end of the file, it has zeros, and says how many were taken.
type bitReader struct {
	b     []byte
	value uint64
	n     int // bits of value that are left, the lowest ones
	past  int // of these, zeros that are in no file
}

// fill sees to it that 32 bits are there.
func (r *bitReader) fill() {
	for r.n <= 32 {
		v := uint64(0)
		switch {
		case len(r.b) > 0 && r.b[0] != 0xff:
			v = uint64(r.b[0])
			r.b = r.b[1:]
		case len(r.b) > 1 && r.b[1] == 0:
			v = 0xff
			r.b = r.b[2:]
		default:
			r.past += 8
		}
		r.value = r.value<<8 | v
		r.n += 8
	}
}

// ended reports whether more bits were taken than there are.
func (r *bitReader) ended() bool { return r.past > r.n }

// take returns the next n bits, at most 16.
func (r *bitReader) take(n int) int32 {
	if r.n < n {
		r.fill()
	}
	r.n -= n
	return int32(r.value>>r.n) & (1<<n - 1)
}

// signed returns a number of n bits as the standard writes them: those that begin with 0 are negative.
func (r *bitReader) signed(n int) int32 {
	v := r.take(n)
	if n > 0 && v < 1<<(n-1) {
		v -= 1<<n - 1
	}
	return v
}

// code returns the next value of a table, -1 for a code that it does not have.
func (r *bitReader) code(t *huffman) int {
	if r.n < 16 {
		r.fill()
	}
	if f := t.fast[uint8(r.value>>(r.n-8))]; f != 0 {
		r.n -= int(f >> 8)
		return int(uint8(f))
	}
	for length := 1; length <= 16; length++ {
		if v := int32(r.value>>(r.n-length)) & (1<<length - 1); v < t.end[length] {
			r.n -= length
			return int(t.values[v+t.first[length]])
		}
	}
	return -1
}
