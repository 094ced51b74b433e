package dlpack_test

import (
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
	"github.com/carve-dev/carve/internal/dl"
)

var _ = Describe("Export and Import", func() {
	BeforeEach(func() {
		if !dl.Supported {
			Skip("no libraries on this platform")
		}
	})

	It("bring every type but strings there and back", func() {
		for dt := tensor.Float32; dt.Valid(); dt++ {
			x, err := tensor.New(dt, 2, 3)
			Expect(err).NotTo(HaveOccurred())
			m, err := dlpack.Export(x, nil)
			if dt == tensor.String {
				Expect(err).To(MatchError(tensor.ErrDType))
				continue
			}
			Expect(err).NotTo(HaveOccurred())
			for i := range x.Data {
				x.Data[i] = byte(17 * i)
			}
			in, err := dlpack.Import(m)
			Expect(err).NotTo(HaveOccurred())
			Expect(in.Tensor().DType).To(Equal(dt))
			Expect(&in.Tensor().Data[0]).To(BeIdenticalTo(&x.Data[0]))
			runtime.GC()
			Expect(in.Tensor().Bytes()).To(Equal(x.Bytes()))
			Expect(in.Alignment()).To(BeNumerically(">=", tensor.Alignment))
			Expect(dlpack.Exports()).To(Equal(1))
			Expect(in.Close()).To(Succeed())
			Expect(dlpack.Exports()).To(BeZero())
		}
	})

	It("name a device's memory by its handle and an offset", func() {
		x := &tensor.Tensor{DType: tensor.Float16, Shape: []int{4}, Device: tensor.DeviceID{Type: tensor.OpenCL, Index: 3}, Handle: 12345, Offset: 512}
		m, err := dlpack.Export(x, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Tensor).To(And(HaveField("Data", uintptr(12345)), HaveField("ByteOffset", uint64(512)), HaveField("Device", x.Device)))
		in, err := dlpack.Import(m)
		Expect(err).NotTo(HaveOccurred())
		Expect(in.Tensor()).To(HaveValue(Equal(*x)))
		Expect(in.Close()).To(Succeed())
	})

	It("turn down what cannot be said", func() {
		_, err := dlpack.Export(&tensor.Tensor{DType: tensor.Float32, Shape: []int{4}, Data: make([]byte, 15)}, nil)
		Expect(err).To(MatchError(tensor.ErrShape))
		_, err = dlpack.ExportLegacy(tensor.Scalar[int8](1), &dlpack.ExportOptions{ReadOnly: true})
		Expect(err).To(MatchError(tensor.ErrUnsupported))
		Expect(dlpack.Exports()).To(BeZero())
	})
})
