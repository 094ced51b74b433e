package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/gpugroup"
	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvidia"
	"github.com/carve-dev/carve/internal/kernelstore"
)

// Names of libraries, for reports.
const (
	nvrtcName = "NVRTC"
	blasName  = "cuBLASLt"
	dnnName   = "cuDNN"
)

// off is the value of an option that names a library for which that is not used.
const off = "off"

// errOff says that an option forbids a library.
var errOff = errors.New("an option forbids it")

// libraries are those of NVIDIA's that do products and convolutions where they are found, and why others are not used.
type libraries struct {
	key           string // what they were searched for by
	blas          *nvidia.BLAS
	dnn           *nvidia.DNN
	noBLAS, noDNN error
}

// findLibraries opens the libraries that options name, or that the system's loader finds, unless they are forbidden. The error tells why
// one that is named does not serve.
func findLibraries(blas, dnn string, driver int) (libraries, error) {
	l := libraries{key: blas + "\n" + dnn, noBLAS: errOff, noDNN: errOff}
	if blas != off {
		if l.blas, l.noBLAS = nvidia.OpenBLAS(blas, driver); l.noBLAS != nil && blas != "" {
			return l, fmt.Errorf("no cuBLASLt: %w", l.noBLAS)
		}
	}
	if dnn != off {
		if l.dnn, l.noDNN = nvidia.OpenDNN(dnn); l.noDNN != nil && dnn != "" {
			return l, fmt.Errorf("no cuDNN: %w", l.noDNN)
		}
	}
	return l, nil
}

// vendor is what there is of libraries for a device: handles for its context, and what was described to them. It is safe for concurrent
// use until it is closed.
type vendor struct {
	d            *gpu
	of           libraries // with why there is no handle
	products     *nvidia.Products
	convolutions *nvidia.Convolutions
	works        kernelstore.Store[*work]
}

var _ gpugroup.Vendor = (*vendor)(nil)

// vendor returns what there is of libraries for the device, which somebody uses. It is the device's, and the same one each time.
func (d *gpu) vendor(l libraries) *vendor {
	if l.blas == nil && l.dnn == nil {
		return &vendor{d: d, of: l}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.vendors[l.key]; v != nil {
		return v
	}
	v := &vendor{d: d, of: l}
	v.works.Free = (*work).close
	c := d.enter()
	defer c.leave()
	if v.of.noBLAS = cmp.Or(v.of.noBLAS, c.err); v.of.noBLAS == nil {
		v.products, v.of.noBLAS = l.blas.Products()
	}
	if v.of.noDNN = cmp.Or(v.of.noDNN, c.err); v.of.noDNN == nil {
		v.convolutions, v.of.noDNN = l.dnn.Convolutions()
	}
	if d.vendors == nil {
		d.vendors = map[string]*vendor{}
	}
	d.vendors[l.key] = v
	return v
}

// close gives everything back. The context is current.
func (v *vendor) close() {
	v.works.Clear()
	if v.products != nil {
		v.products.Close()
	}
	if v.convolutions != nil {
		v.convolutions.Close()
	}
}

// serves reports whether there is any library.
func (v *vendor) serves() bool { return v.products != nil || v.convolutions != nil }

// failed returns why one that was named has no handle.
func (v *vendor) failed(blas, dnn string) error {
	if v.of.blas != nil && blas != "" && v.of.noBLAS != nil {
		return fmt.Errorf("no cuBLASLt: %w: %w", ErrLibrary, v.of.noBLAS)
	}
	if v.of.dnn != nil && dnn != "" && v.of.noDNN != nil {
		return fmt.Errorf("no cuDNN: %w: %w", ErrLibrary, v.of.noDNN)
	}
	return nil
}

// components says what was found, and why not.
func (v *vendor) components() []backend.Component {
	list := []backend.Component{{Name: blasName}, {Name: dnnName}}
	if v.of.blas != nil {
		list[0].Version, list[0].Path = v.of.blas.String(), v.of.blas.Path()
	}
	if v.of.dnn != nil {
		list[1].Version, list[1].Path = v.of.dnn.String(), v.of.dnn.Path()
	}
	for i, err := range []error{v.of.noBLAS, v.of.noDNN} {
		if err != nil {
			list[i].Unused = err.Error()
		}
	}
	return list
}

// work is a product or a convolution that a library does.
type work struct {
	library     string
	done        int // steps of Finish
	workspace   int64
	product     *nvidia.Product
	convolution *nvidia.Convolution
	none        error // why the library does not do it
}

func (w *work) close() {
	if w.product != nil {
		w.product.Close()
	}
	if w.convolution != nil {
		w.convolution.Close()
	}
}

// run queues the work. Arguments are those of a gpugroup.Step. The context is current.
func (w *work) run(stream uintptr, args []uint64) (err error) {
	a, b, c, workspace := uintptr(args[gpugroup.CallA]), uintptr(args[gpugroup.CallB]), uintptr(args[gpugroup.CallC]), uintptr(args[gpugroup.CallWorkspace])
	if w.product != nil {
		err = w.product.Run(stream, a, b, c, args[gpugroup.CallOperands:], workspace)
	} else {
		err = w.convolution.Run(stream, a, b, c, args[gpugroup.CallOperands:], workspace)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	return nil
}

// libraryCall is a work in use.
type libraryCall struct{ *kernelstore.Entry[*work] }

// Library implements gpugroup.Call.
func (c libraryCall) Library() string { return c.Program.library }

// Done implements gpugroup.Call.
func (c libraryCall) Done() int { return c.Program.done }

// Workspace implements gpugroup.Call.
func (c libraryCall) Workspace() int64 { return c.Program.workspace }

// The most memory that libraries may take beside operands, in bytes.
const (
	mostForProducts     = 32 << 20
	mostForConvolutions = 256 << 20
)

// Product implements gpugroup.Vendor.
func (v *vendor) Product(s gpukernel.ProductShape) (gpugroup.Call, error) {
	if v.products == nil {
		return nil, fmt.Errorf("%w: no cuBLASLt", gpukernel.ErrUnsupported)
	}
	return v.acquire(fmt.Sprintf("%s %+v", blasName, s), func() (*work, error) {
		p, err := v.products.Product(s, mostForProducts)
		if err != nil {
			return nil, err
		}
		return &work{library: blasName, done: p.Done, workspace: p.Workspace, product: p}, nil
	})
}

// Convolution implements gpugroup.Vendor.
func (v *vendor) Convolution(s gpukernel.ConvShape) (gpugroup.Call, error) {
	if v.convolutions == nil {
		return nil, fmt.Errorf("%w: no cuDNN", gpukernel.ErrUnsupported)
	}
	return v.acquire(fmt.Sprintf("%s %+v", dnnName, s), func() (*work, error) {
		c, err := v.convolutions.Convolution(s, mostForConvolutions)
		if err != nil {
			return nil, err
		}
		return &work{library: dnnName, done: c.Done, workspace: c.Workspace, convolution: c}, nil
	})
}

// acquire returns what does a work, and remembers what no library does.
func (v *vendor) acquire(key string, build func() (*work, error)) (gpugroup.Call, error) {
	e, err := v.works.Acquire(context.Background(), key, func() (*work, error) {
		c := v.d.enter()
		defer c.leave()
		if c.err != nil {
			return nil, c.err
		}
		w, err := build()
		if errors.Is(err, gpukernel.ErrUnsupported) {
			return &work{none: err}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	if err := e.Program.none; err != nil {
		e.Release()
		return nil, err
	}
	return libraryCall{e}, nil
}
