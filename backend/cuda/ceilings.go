package cuda

import (
	"cmp"

	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// What is assumed where the driver does not say: kilohertz, and bits of the way to the memory.
const (
	assumedClock       = 1_400_000
	assumedMemoryClock = 5_000_000
	assumedBus         = 128
)

// interpreted is how many instructions the interpreter takes for an element, for a few of its own.
const interpreted = 100

// perClock are the multiplications with an addition that a multiprocessor does in a clock cycle, in float32 and on matrix
// instructions of operands of TF32 and of 16 bits, by the least compute capability that they hold for. Of capability 9.0 they are
// those that the instructions reach that are used here.
var perClock = []struct{ capability, plain, tf32, half int }{
	{100, 128, 512, 1024},
	{90, 128, 640, 1280},
	{89, 128, 256, 512},
	{86, 128, 128, 256},
	{80, 64, 512, 1024},
	{75, 64, 0, 512},
	{70, 64, 0, 512},
	{60, 64, 0, 0},
	{0, 128, 0, 0},
}

// ceilings are what the device does at most, by its clocks and what its multiprocessors are like.
func (f *facts) ceilings(k gpukernel.Device) gpugroup.Ceilings {
	i := 0
	for perClock[i].capability > f.capability {
		i++
	}
	// kHz times operations in a cycle are operations in a millisecond, and so a millionth of those in a nanosecond.
	rate := 2 * float64(cmp.Or(f.clock, assumedClock)) * float64(max(f.processors, 1)) / 1e6
	c := gpugroup.Ceilings{Arithmetic: rate * float64(perClock[i].plain), Kernel: 2500, Group: 8000}
	c.Memory = 2 * float64(cmp.Or(f.memoryClock, assumedMemoryClock)) * float64(cmp.Or(f.bus, assumedBus)) / 8 / 1e6
	if k.Prebuilt {
		c.Element = interpreted * 2 / c.Arithmetic
	}
	switch k.Rounds() {
	case gpukernel.TF32:
		c.Products = rate * float64(perClock[i].tf32)
	case gpukernel.RoundedF16, gpukernel.RoundedBF16:
		c.Products = rate * float64(perClock[i].half)
	case gpukernel.Exact:
	}
	return c
}
