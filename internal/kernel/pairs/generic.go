package pairs

import (
	"math"
	"unsafe"
)

// Round encodes bfloat16, to nearest, ties to even.
func Round(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// Low and High return the numbers of a word.
func Low(word uint32) float32  { return math.Float32frombits(word << 16) }
func High(word uint32) float32 { return math.Float32frombits(word &^ 0xffff) }

// pair is a word of two numbers.
func pair(low, high float32) uint32 { return uint32(Round(low)) | uint32(Round(high))<<16 }

func genericAlong(dst *uint32, src *float32, n int) {
	to, from := unsafe.Slice(dst, Words(n)), unsafe.Slice(src, n)
	for i := range n / 2 {
		to[i] = pair(from[2*i], from[2*i+1])
	}
	if n%2 != 0 {
		to[n/2] = pair(from[n-1], 0)
	}
}

func genericAcross(dst *uint32, a, b *float32, n, lds, width int) {
	for i := range n {
		to := unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(dst), 4*Lanes*i)), Lanes)
		clear(to[width:])
		low := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(a), 8*lds*i)), width)
		high := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(b), 8*lds*i)), width)
		for j := range width {
			to[j] = pair(low[j], high[j])
		}
	}
}

func genericBeside(dst *uint32, a, b *float32, n, lds, ldd int) {
	for i := range n {
		for k, x := range []*float32{a, b} {
			if x != nil {
				genericAlong((*uint32)(unsafe.Add(unsafe.Pointer(dst), 4*(ldd*i+Lanes/2*k))), (*float32)(unsafe.Add(unsafe.Pointer(x), 4*lds*i)), Lanes)
			}
		}
	}
}
