package onnx_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/offheap"
)

func entry(key, value string) msg { return msg{}.sub(13, msg{}.str(1, key).str(2, value)) }

var _ = Describe("external data", func() {
	var top, dir string

	BeforeEach(func() {
		top = GinkgoT().TempDir()
		dir = filepath.Join(top, "model")
		Expect(os.MkdirAll(filepath.Join(dir, "sub"), 0o700)).To(Succeed())
		for _, name := range []string{filepath.Join(top, "secret.bin"), filepath.Join(dir, "w.bin"), filepath.Join(dir, "sub", "w.bin")} {
			Expect(os.WriteFile(name, []byte("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40"), 0o600)).To(Succeed())
		}
	})

	load := func(x msg, o *onnx.Options) (*onnx.Model, error) {
		path := filepath.Join(dir, "model.onnx")
		Expect(os.WriteFile(path, relu(initializer(x)), 0o600)).To(Succeed())
		return onnx.Load(context.Background(), path, o)
	}

	DescribeTable("is referenced", func(x msg, want ...float32) {
		before := offheap.Total().Files
		m, err := load(x, nil)
		Expect(err).NotTo(HaveOccurred())
		for v := range m.Graph.Constants() {
			Expect(tensor.Elements[float32](v.Const)).To(Equal(want))
			Expect(m.Evict()).To(Succeed())
			Expect(tensor.Elements[float32](v.Const)).To(Equal(want))
		}
		Expect(m.Close()).To(Succeed())
		Expect(offheap.Total().Files).To(BeNumerically("<=", before)) // the collector may end what others left
	},
		Entry("from the start", external("w.bin"), float32(1), float32(2)),
		Entry("at an offset", external("w.bin", entry("offset", "4"), entry("length", "8")), float32(2), float32(3)),
		Entry("in a folder below", external("sub/w.bin"), float32(1), float32(2)),
		Entry("on a way that comes back", external("sub/../w.bin"), float32(1), float32(2)),
	)

	DescribeTable("is refused", func(x msg, cause error) {
		before := offheap.Total().Files
		_, err := load(x, nil)
		Expect(err).To(MatchError(onnx.ErrExternalData))
		if cause != nil {
			Expect(err).To(MatchError(cause))
		}
		var own *onnx.Error
		Expect(errors.As(err, &own)).To(BeTrue())
		Expect(own.Value).To(Equal("w"))
		Expect(own.File).To(HaveSuffix("model.onnx"))
		Expect(offheap.Total().Files).To(BeNumerically("<=", before)) // the collector may end what others left
	},
		Entry("above the folder", external("../secret.bin"), nil),
		Entry("far above the folder", external("../../etc/passwd"), nil),
		Entry("above, by way of a folder", external("sub/../../secret.bin"), nil),
		Entry("absolute", external("/etc/passwd"), nil),
		Entry("with backslashes", external(`..\secret.bin`), nil),
		Entry("without a name", external(""), nil),
		Entry("the folder itself", external("."), onnx.ErrNotRegular),
		Entry("a folder", external("sub"), onnx.ErrNotRegular),
		Entry("missing", external("none.bin"), fs.ErrNotExist),
		Entry("with a NUL", external("w.bin\x00x"), nil),
		Entry("past the end", external("w.bin", entry("offset", "8")), onnx.ErrTruncated),
		Entry("far past the end", external("w.bin", entry("offset", "9223372036854775807")), onnx.ErrTruncated),
	)

	It("is refused where its length is not that of the tensor, or no number", func() {
		for _, x := range []msg{external("w.bin", entry("length", "4")), external("w.bin", entry("offset", "-4")), external("w.bin", entry("length", "x"))} {
			_, err := load(x, nil)
			var own *onnx.Error
			Expect(errors.As(err, &own)).To(BeTrue())
		}
	})

	It("is refused through links that leave the folder, and read through those that stay", func() {
		if runtime.GOOS == "windows" {
			Skip("links need privileges")
		}
		Expect(os.Symlink(filepath.Join(top, "secret.bin"), filepath.Join(dir, "out.bin"))).To(Succeed())
		Expect(os.Symlink("..", filepath.Join(dir, "up"))).To(Succeed())
		Expect(os.Symlink(filepath.Join("sub", "w.bin"), filepath.Join(dir, "in.bin"))).To(Succeed())
		for _, location := range []string{"out.bin", "up/secret.bin"} {
			_, err := load(external(location), nil)
			Expect(err).To(MatchError(onnx.ErrExternalData), location)
		}
		m, err := load(external("in.bin"), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Close()).To(Succeed())
	})

	It("is taken once, however it is named", func() {
		var weights []msg
		for i, way := range []string{"w.bin", "./w.bin", "sub/../w.bin", "sub/.././/w.bin"} {
			weights = append(weights, initializer(msg(bytes.Replace(external(way), []byte("\x01w"), []byte{1, 'a' + byte(i)}, 1))))
		}
		file := model(join(append(weights, gnode(node("Sum", "", names("a", "b", "c", "d"), names("y"))), output("y"))...))
		Expect(os.WriteFile(filepath.Join(dir, "model.onnx"), file, 0o600)).To(Succeed())
		for _, load := range []func() (*onnx.Model, error){
			func() (*onnx.Model, error) {
				return onnx.Load(context.Background(), filepath.Join(dir, "model.onnx"), nil)
			},
			func() (*onnx.Model, error) {
				return onnx.Load(context.Background(), filepath.Join(dir, "model.onnx"), &onnx.Options{Copy: true})
			},
			func() (*onnx.Model, error) {
				return onnx.LoadFS(context.Background(), os.DirFS(top), "model/model.onnx", nil)
			},
		} {
			m, err := load()
			Expect(err).NotTo(HaveOccurred())
			places := map[*byte]int{}
			for v := range m.Graph.Constants() {
				Expect(tensor.Elements[float32](v.Const)).To(Equal([]float32{1, 2}))
				places[&v.Const.Data[0]]++
			}
			Expect(places).To(HaveLen(1))
			Expect(places).To(ContainElement(4))
			Expect(m.Close()).To(Succeed())
		}
	})

	It("is found in another folder that the caller names", func() {
		Expect(os.Remove(filepath.Join(dir, "w.bin"))).To(Succeed())
		m, err := load(external("w.bin"), &onnx.Options{DataDir: filepath.Join(dir, "sub")})
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Close()).To(Succeed())
	})

	It("is read from file systems, without links", func() {
		Expect(os.WriteFile(filepath.Join(dir, "model.onnx"), relu(initializer(external("sub/w.bin"))), 0o600)).To(Succeed())
		m, err := onnx.LoadFS(context.Background(), os.DirFS(top), "model/model.onnx", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.FileBytes).To(BeNumerically(">", 12))
		for _, location := range []string{"../secret.bin", "/w.bin", "sub", "none"} {
			_, err := onnx.LoadFS(context.Background(), fstest.MapFS{"model/model.onnx": {Data: relu(initializer(external(location)))},
				"secret.bin": {Data: make([]byte, 8)}, "model/sub/x": {}}, "model/model.onnx", nil)
			Expect(err).To(MatchError(onnx.ErrExternalData), location)
		}
		if runtime.GOOS == "windows" {
			return
		}
		Expect(os.Symlink(filepath.Join(top, "secret.bin"), filepath.Join(dir, "out.bin"))).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "model.onnx"), relu(initializer(external("out.bin"))), 0o600)).To(Succeed())
		_, err = onnx.LoadFS(context.Background(), os.DirFS(top), "model/model.onnx", nil)
		Expect(err).To(MatchError(onnx.ErrExternalData))
	})

	It("may be a whole tensor of an empty file", func() {
		Expect(os.WriteFile(filepath.Join(dir, "empty.bin"), nil, 0o600)).To(Succeed())
		m, err := load(msg{}.int(1, 0).int(2, 1).str(8, "w").sub(13, msg{}.str(1, "location").str(2, "empty.bin")).int(14, 1), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(m.Close()).To(Succeed())
	})
})

var _ = Describe("a path", func() {
	It("that leads to no regular file is refused", func() {
		_, err := onnx.Load(context.Background(), GinkgoT().TempDir(), nil)
		Expect(err).To(MatchError(onnx.ErrNotRegular))
		_, err = onnx.Load(context.Background(), filepath.Join(GinkgoT().TempDir(), "none.onnx"), nil)
		Expect(err).To(MatchError(fs.ErrNotExist))
		_, err = onnx.LoadFS(context.Background(), fstest.MapFS{}, "../x", nil)
		Expect(err).To(MatchError(fs.ErrInvalid))
	})
})

var _ = Describe("a mapped model", func() {
	It("can be read for as long as its graph is held", func() {
		path := filepath.Join(GinkgoT().TempDir(), "model.onnx")
		Expect(os.WriteFile(path, relu(initializer(vector("w", 1, 2))), 0o600)).To(Succeed())
		m, err := onnx.Load(context.Background(), path, nil)
		Expect(err).NotTo(HaveOccurred())
		g := m.Graph
		m = nil
		for range 3 {
			runtime.GC()
		}
		for v := range g.Constants() {
			Expect(v.Const.Float64At(1)).To(Equal(2.0))
		}
		runtime.KeepAlive(g)
	})
})
