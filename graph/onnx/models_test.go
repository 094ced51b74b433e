package onnx_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// modelFiles returns the paths of all models below a folder.
func modelFiles(root string) (paths []string) {
	GinkgoHelper()
	Expect(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".onnx") {
			paths = append(paths, path)
		}
		return err
	})).To(Succeed())
	return paths
}

// roundTrip loads a model, writes it to memory, reads that, and compares texts.
func roundTrip(ctx context.Context, path string) error {
	m, err := onnx.Load(ctx, path, nil)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := graph.Verify(m.Graph); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var file, data bytes.Buffer
	if err := onnx.Write(ctx, &file, &data, m, &onnx.SaveOptions{External: "model.bin", MinExternal: 64}); err != nil {
		return err
	}
	again, err := onnx.Parse(ctx, file.Bytes(), &onnx.Options{Data: fstest.MapFS{"model.bin": {Data: data.Bytes()}}})
	if err != nil {
		return err
	}
	defer again.Close()
	if a, b := m.Graph.String(), again.Graph.String(); a != b {
		return fmt.Errorf("%s: the text differs after writing and reading:\n%s", path, firstDifference(a, b))
	}
	if fmt.Sprint(m.Outputs) != fmt.Sprint(again.Outputs) {
		return fmt.Errorf("%s: outputs %v became %v", path, m.Outputs, again.Outputs)
	}
	return nil
}

func firstDifference(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range la {
		if i >= len(lb) || la[i] != lb[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i, la[i], strings.Join(lb[min(i, len(lb)):min(i+1, len(lb))], ""))
		}
	}
	return "longer"
}

var _ = Describe("real models", func() {
	It("reads, verifies and rewrites every model of ONNX's backend tests", func(ctx context.Context) {
		n := 0
		var faults []error
		for _, path := range modelFiles(shared("onnx-backend-tests")) {
			n++
			if err := roundTrip(ctx, path); err != nil {
				faults = append(faults, err)
			}
		}
		Expect(errors.Join(faults...)).NotTo(HaveOccurred())
		Expect(n).To(BeNumerically(">", 1600))
	})

	It("reads the inputs and outputs of ONNX's backend tests by the model's types", func(ctx context.Context) {
		n := 0
		for _, path := range modelFiles(shared("onnx-backend-tests", "node")) {
			m, err := onnx.Load(ctx, path, nil)
			Expect(err).NotTo(HaveOccurred(), path)
			for i, in := range m.Graph.Inputs {
				b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "test_data_set_0", fmt.Sprintf("input_%d.pb", i)))
				if err != nil {
					continue
				}
				_, v, err := tensor.ParseValue(b, onnx.ValueKind(in.Type), nil)
				Expect(err).NotTo(HaveOccurred(), path)
				if t, ok := v.(*tensor.Tensor); ok {
					Expect(t.DType).To(Equal(in.Type.DType), path)
				}
				n++
			}
			Expect(m.Close()).To(Succeed())
		}
		Expect(n).To(BeNumerically(">", 1800))
	})

	It("reads, verifies and rewrites the zoo's graphs, with empty weights", func(ctx context.Context) {
		for _, path := range modelFiles(shared("models")) {
			dir := GinkgoT().TempDir()
			name := strings.TrimSuffix(filepath.Base(path), ".onnx")
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(dir, name+".onnx"), b, 0o600)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(dir, name+".bin"), nil, 0o600)).To(Succeed())
			Expect(os.Truncate(filepath.Join(dir, name+".bin"), weightBytes(shared("models", name+".weights.txt")))).To(Succeed()) // sparse
			start := time.Now()
			m, err := onnx.Load(ctx, filepath.Join(dir, name+".onnx"), nil)
			Expect(err).NotTo(HaveOccurred(), name)
			GinkgoWriter.Println(name, m.Graph.NumNodes(), time.Since(start))
			Expect(graph.Verify(m.Graph)).To(Succeed())
			Expect(m.Close()).To(Succeed())
		}
	})
})

var _ = Describe("weights", func() {
	It("lie where the manifest of the model says", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		manifest, err := os.ReadFile(shared("models", "squeezenet1_1.weights.txt"))
		Expect(err).NotTo(HaveOccurred())
		data := make([]byte, weightBytes(shared("models", "squeezenet1_1.weights.txt")))
		want := map[string][]byte{}
		for line := range strings.Lines(string(manifest)) {
			var off, count int
			var seed uint64
			var lo, hi float64
			var dims, name string
			if _, err := fmt.Sscanf(line, "%d %d %x %g %g %s %s", &off, &count, &seed, &lo, &hi, &dims, &name); err != nil {
				continue
			}
			for i := range 4 * count { // any bytes that differ between tensors
				data[off+i] = byte(seed>>(i%8*8)) + byte(i>>8)
			}
			want[name] = data[off : off+4*count]
		}
		Expect(want).NotTo(BeEmpty())
		b, err := os.ReadFile(shared("models", "squeezenet1_1.onnx"))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, "squeezenet1_1.onnx"), b, 0o600)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(dir, "squeezenet1_1.bin"), data, 0o600)).To(Succeed())
		for _, o := range []*onnx.Options{nil, {Copy: true}} {
			m, err := onnx.Load(ctx, filepath.Join(dir, "squeezenet1_1.onnx"), o)
			Expect(err).NotTo(HaveOccurred())
			found := 0
			for v := range m.Graph.Constants() {
				if w, ok := want[v.Name]; ok {
					Expect(bytes.Equal(v.Const.Bytes(), w)).To(BeTrue(), v.Name)
					found++
				}
			}
			Expect(found).To(Equal(len(want)))
			Expect(m.FileBytes).To(Equal(int64(len(b) + len(data))))
			Expect(m.Close()).To(Succeed())
			Expect(m.Close()).To(Succeed())
		}
	})
})

// weightBytes reads the size of a weights file from its manifest.
func weightBytes(manifest string) int64 {
	GinkgoHelper()
	b, err := os.ReadFile(manifest)
	Expect(err).NotTo(HaveOccurred())
	var n int64
	_, rest, _ := strings.Cut(string(b), "bytes=")
	_, err = fmt.Sscan(rest, &n)
	Expect(err).NotTo(HaveOccurred())
	return n
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{"bert_tiny", "vgg11", "ssdlite320_mobilenet_v3_large"} {
		b.Run("model="+name, func(b *testing.B) {
			path := filepath.Join(os.Getenv("CARVE_ZOO"), name+".onnx")
			if _, err := os.Stat(path); err != nil {
				b.Skip("set CARVE_ZOO to a folder with the zoo's models and weights")
			}
			b.ReportAllocs()
			for b.Loop() {
				m, err := onnx.Load(b.Context(), path, nil)
				if err != nil {
					b.Fatal(err)
				}
				if err := m.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
