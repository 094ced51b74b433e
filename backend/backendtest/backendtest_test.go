package backendtest_test

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/backend/cuda"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/backend/opencl"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel/fakecuda"
)

func TestCPU(t *testing.T) {
	backendtest.Run(t, func() backend.Backend { return opened(t, cpu.Open) })
}

func TestReference(t *testing.T) {
	backendtest.Run(t, func() backend.Backend { return opened(t, reference.Open) })
}

func TestMKL(t *testing.T) {
	if _, err := mkl.Open(backend.Config{Name: "mkl"}); errors.Is(err, backend.ErrUnavailable) {
		t.Skip("no oneDNN here:", err)
	}
	backendtest.Run(t, func() backend.Backend { return opened(t, mkl.Open) })
}

var openCL = flag.Bool("opencl", false, "run the suite on OpenCL too: where a processor stands in for a graphics processor, its compiler takes minutes")

func TestOpenCL(t *testing.T) {
	if !*openCL {
		t.Skip("takes minutes: -opencl")
	}
	if _, err := opencl.Open(backend.Config{Name: "opencl"}); errors.Is(err, backend.ErrUnavailable) {
		t.Skip("no OpenCL here:", err)
	}
	backendtest.Run(t, func() backend.Backend { return opened(t, opencl.Open) })
}

var onCUDA = flag.Bool("cuda", false, "run the suite on CUDA too, by a driver that runs kernels on the host: half a minute")

// TestCUDA runs the suite on a driver that runs kernels on the host: there is no device, but all that is done for one.
func TestCUDA(t *testing.T) {
	if !*onCUDA {
		t.Skip("takes half a minute: -cuda")
	}
	d, err := fakecuda.Build(t.Context(), t.TempDir(), fakecuda.Options{})
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Set("devices", 2)
	backendtest.Run(t, func() backend.Backend {
		b, err := cuda.Open(backend.Config{Options: map[string]string{"library": d.CUDA, "nvrtc": d.NVRTC, "cache": "off"}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	if x := d.Report(); x != "" {
		t.Error(x)
	}
	if x := d.Live(); x != "" {
		t.Error(x)
	}
	t.Logf("%d kernels of %d programs; %d launches of graphs", d.Count("kernels"), d.CompilerCount("compiled"), d.Count("cuGraphLaunch"))
}

var onDevice = flag.String("cuda-device", "", "run the suite on the CUDA devices that are here; \"default\", or options of the backend, NAME=VALUE with commas between")

// TestCUDADevice runs the suite on NVIDIA's devices.
func TestCUDADevice(t *testing.T) {
	if *onDevice == "" {
		t.Skip("needs a device: -cuda-device default")
	}
	options := map[string]string{"cache": "off"}
	if *onDevice != "default" {
		for o := range strings.SplitSeq(*onDevice, ",") {
			name, value, _ := strings.Cut(o, "=")
			options[name] = value
		}
	}
	backendtest.Run(t, func() backend.Backend {
		b, err := cuda.Open(backend.Config{Options: options})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// TestFake runs the suite on an accelerator that works by itself, with the kernels of cpu.
func TestFake(t *testing.T) {
	backendtest.Run(t, func() backend.Backend {
		b := fake.New(fake.Options{Devices: 2, Kernels: opened(t, cpu.Open), Delay: 20 * time.Microsecond, Layouts: []graph.Layout{graph.NCHW16c}})
		t.Cleanup(func() {
			for _, list := range [][]string{b.Faults(), b.Leaks()} {
				for _, x := range list {
					t.Error(x)
				}
			}
		})
		return b
	})
}

func opened(t *testing.T, open backend.Driver) backend.Backend {
	t.Helper()
	b, err := open(backend.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
