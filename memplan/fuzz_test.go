package memplan_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/carve-dev/carve/memplan"
)

// decodeBuffers turns bytes into buffers, faulty ones among them.
func decodeBuffers(data []byte) []memplan.Buffer {
	var bufs []memplan.Buffer
	number := func(b byte) int64 {
		switch {
		case b == 255:
			return math.MaxInt64
		case b == 254:
			return math.MinInt64
		case b >= 250:
			return math.MaxInt64 / 2
		}
		return int64(int8(b))
	}
	for len(data) >= 8 && len(bufs) < 40 {
		b := memplan.Buffer{Size: number(data[0]), Lower: number(data[1]), Upper: number(data[2])}
		flags := binary.LittleEndian.Uint16(data[3:])
		if flags&1 != 0 {
			b.Align = 1 << (flags >> 12)
		}
		if flags&2 != 0 {
			b.Align = number(data[5])
		}
		if flags&4 != 0 {
			b.Fixed, b.Offset = true, number(data[6])
		}
		if flags&8 != 0 {
			b.Gaps = []memplan.Interval{{Lower: number(data[5]), Upper: number(data[6])}}
		}
		if flags&16 != 0 {
			b.Share = []int{int(int8(data[7]))}
		}
		bufs = append(bufs, b)
		data = data[8:]
	}
	return bufs
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("\x08\x00\x05\x00\x00\x00\x00\x00\x06\x02\x09\x01\x20\x00\x00\x00"), uint16(0))
	f.Add([]byte("\x08\x00\x05\x04\x00\x00\x10\x00\x06\x02\x09\x10\x00\x00\x00\x00"), uint16(14))
	f.Add([]byte("\xff\x00\x05\x00\x00\x00\x00\x00\xff\x05\x09\x08\x00\x06\x07\x00"), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, capacity uint16) {
		bufs := decodeBuffers(data)
		bound := memplan.LowerBound(bufs)
		plan, err := memplan.Pack(context.Background(), bufs, &memplan.Options{Capacity: int64(capacity), Steps: 2000, Threads: 2})
		var fault *memplan.InputError
		switch {
		case err == nil:
			if err := memplan.Verify(bufs, plan.Offsets, int64(capacity)); err != nil {
				t.Fatal(err)
			}
			if plan.Height < bound || plan.LowerBound < bound || plan.Optimal != (plan.Height == plan.LowerBound) {
				t.Fatalf("height %d, lower bound %d (%d), optimal %v", plan.Height, plan.LowerBound, bound, plan.Optimal)
			}
			if plan.Height > 0 {
				if err := memplan.Verify(bufs, plan.Offsets, plan.Height); err != nil {
					t.Fatal(err)
				}
			}
		case errors.As(err, &fault), errors.Is(err, memplan.ErrInfeasible), errors.Is(err, memplan.ErrNoPlan):
		default:
			t.Fatalf("untyped error: %v", err)
		}
	})
}
