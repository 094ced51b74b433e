// Command gpu measures the kernels of package gpukernel on the CUDA device that it finds, beside the ceilings of that device:
// copies, multiply-adds, and NVIDIA's products of matrices where that library is found. It is one file that needs the driver
// and the run-time compiler, and checks every result that it times.
//
//	gpu -nvrtc PATH -cublas PATH
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"

	"github.com/carve-dev/carve/internal/gpukernel"
	"github.com/carve-dev/carve/internal/gpukernel/nvrtc"
)

func main() {
	compiler := flag.String("nvrtc", "", "path of libnvrtc; empty: the loader searches")
	library := flag.String("cublas", "", "path of libcublas; empty: the loader searches")
	tune := flag.Int("tune", 1, "tiles to measure for each product, best by the model first")
	budget := flag.Float64("budget", 0.05, "seconds of device time for a measurement, about")
	parts := flag.String("parts", "ceilings,products,rows,convolutions,attention", "what to measure, separated by commas")
	flag.Parse()
	if err := run(*compiler, *library, *parts, *tune, *budget); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(compiler, library, parts string, tune int, budget float64) error {
	runtime.LockOSThread()
	d, err := openDriver()
	if err != nil {
		return err
	}
	c, err := nvrtc.Open(compiler)
	if err != nil {
		return err
	}
	t, err := d.newTimer()
	if err != nil {
		return err
	}
	b := &bench{driver: d, compiler: c, timer: t, budget: budget, device: gpukernel.NVIDIA(d.capability, d.processors),
		binaries: map[*gpukernel.Kernel][]byte{}, random: rand.New(rand.NewPCG(1, 2))}
	fmt.Printf("%s, capability %d.%d, %d processors, driver %d, NVRTC %d.%d\n", d.name, d.capability/10, d.capability%10,
		d.processors, d.version, c.Major, c.Minor)
	if b.blas, err = openBLAS(library, d); err != nil {
		fmt.Printf("no cuBLAS: %v\n", err)
	}
	return b.parts(parts, tune)
}
