package cuda_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
	"github.com/carve-dev/carve/internal/gpugroup/grouptest"
)

var _ = DescribeTable("six operators on three backends run where they are pinned, by the conversions of the example and no others, to the last bit",
	func(ctx SpecContext, option, value string, want ...string) {
		fake := driver()
		if option == "nvrtc" {
			Expect(known()).To(Succeed())
		}
		if _, err := mkl.Open(backend.Config{}); errors.Is(err, backend.ErrUnavailable) {
			Skip("no oneDNN here: " + err.Error())
		}
		owners, list := grouptest.Pinned(config(fake, option, value))
		got, err := grouptest.RunPinned(ctx, carve.Options{Poison: true, Backends: list}, owners)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Groups).To(Equal([]string{"mkl 2", "cuda 2", "mkl 1", "reference 1"}))
		Expect(got.Hops).To(Equal(grouptest.Blocks(want)))
		plain, err := grouptest.RunPinned(ctx, carve.Options{Backends: []backend.Config{{Name: "reference"}}}, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Output.Bytes()).To(Equal(plain.Output.Bytes()))
	},
	Entry("with direct converters between blocks of channels and the device's layout", "reorder", "device",
		"x: host:NCHW → host:NCHW16c", "Op2: host:NCHW16c → cuda:0:NHWC", "Op4: cuda:0:NHWC → host:NCHW16c", "Op5: host:NCHW16c → host:NCHW"),
	Entry("with these, of kernels that were compiled beforehand", "nvrtc", "off",
		"x: host:NCHW → host:NCHW16c", "Op2: host:NCHW16c → cuda:0:NHWC", "Op4: cuda:0:NHWC → host:NCHW16c", "Op5: host:NCHW16c → host:NCHW"),
	Entry("with direct converters that cast to half precision as well", "precision", "f16",
		"x: host:NCHW → host:NCHW16c", "Op2: host:NCHW16c → cuda:0:gpu@1:f16-acdb", "Op4: cuda:0:NHWC → host:NCHW16c", "Op5: host:NCHW16c → host:NCHW"),
	Entry("without these", "reorder", "host",
		"x: host:NCHW → host:NCHW16c",
		"Op2: host:NCHW16c → host:NHWC", "Op2: host:NHWC → cuda:0:NHWC",
		"Op4: cuda:0:NHWC → host:NHWC", "Op4: host:NHWC → host:NCHW16c",
		"Op5: host:NCHW16c → host:NCHW"))
