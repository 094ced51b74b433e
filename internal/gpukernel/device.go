package gpukernel

import "fmt"

// Device is what the choice of tiles depends on, and nothing else does.
type Device struct {
	Processors  int  // multiprocessors or compute units
	Local       int  // bytes of local memory that a group may have
	LocalTotal  int  // bytes of local memory of a processor
	Matrix      bool // has the matrix instructions of CUDA's compute capability 8.0 and later
	AsyncCopies bool // copies to local memory in the background
	Prebuilt    bool // kernels are those of Prebuilt alone
	Vector      int  // floats in a register of a processor that stands in for a graphics processor; 0 for others
	Precision   Precision
	Double      bool // computes in double precision
	// Narrow has products without matrix instructions follow a Precision of 16 bits as well: operands lie in local memory in 16 bits.
	Narrow bool
}

// Rounds returns the Precision that products and convolutions of float32 have: that of the device as far as it follows one.
func (d Device) Rounds() Precision {
	if d.Prebuilt || !d.Matrix && !(d.Narrow && d.Precision.Half() != "") {
		return Exact
	}
	return d.Precision
}

// Unmet says that the precision has no effect on the device, and why; "" where it has.
func (d Device) Unmet() string {
	why := "the device has no instructions for it"
	switch {
	case d.Rounds() == d.Precision:
		return ""
	case d.Prebuilt:
		why = "kernels that were compiled beforehand do not round"
	}
	return fmt.Sprintf("precision=%v: %s, products stay in f32", d.Precision, why)
}

// NVIDIA returns the Device of a CUDA compute capability, 75 for 7.5, with the given number of multiprocessors.
func NVIDIA(capability, processors int) Device {
	d := Device{Processors: processors, Local: 64 << 10, LocalTotal: 64 << 10}
	switch {
	case capability >= 90 && capability < 120:
		d.Local, d.LocalTotal = 227<<10, 228<<10
	case capability == 80:
		d.Local, d.LocalTotal = 163<<10, 164<<10
	case capability > 80:
		d.Local, d.LocalTotal = 99<<10, 100<<10
	}
	d.Double = true
	d.Matrix = capability >= 80
	d.AsyncCopies = capability >= 80
	return d
}

// Generic returns a Device of an OpenCL device with so many compute units and bytes of local memory.
func Generic(units, local int) Device {
	return Device{Processors: max(units, 1), Local: local, LocalTotal: local}
}
