package opencl

import (
	"cmp"

	"github.com/carve-dev/carve/internal/gpugroup"
)

// Numbers of vendors.
const (
	vendorNVIDIA = 0x10de
	vendorAMD    = 0x1002
	vendorIntel  = 0x8086
)

const (
	// processorClock is taken for that of every processor, in GHz: what its driver says is what it happens to be at that moment, and
	// placement would be another each time.
	processorClock = 2.5
	assumedClock   = 1.0 // in GHz, of devices that do not say

	// balance are the operations that a graphics processor does while it reads a byte: OpenCL does not tell of its memory.
	balance = 32
	// sharedMemory is the most that a device reads of the host's memory, in bytes of a nanosecond.
	sharedMemory = 40
	// hostMemory is what a processor reads, in bytes of a nanosecond and unit, at most so many units at once.
	hostMemory, hostReaders = 4, 6
)

// lanes are the multiplications with an addition that a compute unit does in a clock cycle, by vendor: what OpenCL calls a unit is a
// multiprocessor of NVIDIA's, a unit of four vectors of 16 lanes of AMD's, and one of eight lanes of Intel's.
var lanes = map[uint32]int{vendorNVIDIA: 128, vendorAMD: 64, vendorIntel: 8}

// otherLanes is taken for the rest.
const otherLanes = 32

// ceilings are what the device does at most, as far as its driver tells.
func (f *facts) ceilings() gpugroup.Ceilings {
	units := float64(max(f.units, 1))
	if f.kind&deviceTypeCPU != 0 {
		return gpugroup.Ceilings{Arithmetic: 2 * units * processorClock * float64(max(f.vector, 4)), Memory: hostMemory * min(units, hostReaders),
			Kernel: 15000, Group: 30000}
	}
	clock := cmp.Or(float64(f.clock)/1000, assumedClock)
	c := gpugroup.Ceilings{Arithmetic: 2 * units * clock * float64(cmp.Or(lanes[f.vendor], otherLanes)), Kernel: 5000, Group: 15000}
	if c.Memory = c.Arithmetic / balance; f.unified {
		c.Memory = min(c.Memory, sharedMemory)
	}
	return c
}
