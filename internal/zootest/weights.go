package zootest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Materialize returns the path of a complete model of the zoo: NAME.onnx with its weights, NAME.bin, beside it. It is
// made in a cache folder of the user's at the first call, and found there afterwards. Several processes may call it at
// once: each file is complete before it has its name. Cost: the size of the weights, up to some hundred MB.
func Materialize(name string) (string, error) {
	dir, err := Shared("models")
	if err != nil {
		return "", err
	}
	return MaterializeFrom(dir, name)
}

// MaterializeFrom is Materialize for a zoo that lies in a folder.
func MaterializeFrom(dir, name string) (string, error) {
	manifest, err := os.ReadFile(filepath.Join(dir, name+manifestSuffix))
	if err != nil {
		return "", err
	}
	model, err := os.ReadFile(filepath.Join(dir, name+".onnx"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(manifest)
	sum.Write(model)
	out := filepath.Join(cache, "carve-test", fmt.Sprintf("%s-%x", name, sum.Sum(nil)[:6]))
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	rows, total, err := parseManifest(manifest)
	if err != nil {
		return "", fmt.Errorf("%s%s: %w", name, manifestSuffix, err)
	}
	data := filepath.Join(out, name+".bin")
	if info, err := os.Stat(data); err != nil || info.Size() != total {
		if err := writeAtomically(data, func(w io.Writer) error { return writeWeights(w, rows, total) }); err != nil {
			return "", err
		}
	}
	path := filepath.Join(out, name+".onnx")
	if _, err := os.Stat(path); err != nil {
		err := writeAtomically(path, func(w io.Writer) error {
			_, err := w.Write(model)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return path, nil
}

// WeightBytes returns the size of a model's weights.
func WeightBytes(name string) (int64, error) {
	path, err := Shared("models/" + name + manifestSuffix)
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, total, err := parseManifest(b)
	return total, err
}

// writeAtomically gives path its content in one step.
func writeAtomically(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	w := bufio.NewWriterSize(f, 1<<20)
	if err := fill(w); err != nil {
		f.Close()
		return err
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// row is one tensor of a manifest: count float32 in [lo, hi) at a byte offset.
type row struct {
	offset, count int64
	seed          uint64
	lo, hi        float64
}

// parseManifest reads the lines "offset count seed(hex) lo hi dims name" and the file's size.
func parseManifest(b []byte) (rows []row, total int64, err error) {
	for line := range bytes.Lines(b) {
		s := strings.TrimSpace(string(line))
		if strings.HasPrefix(s, "#") {
			for _, word := range strings.Fields(s) {
				if v, ok := strings.CutPrefix(word, "bytes="); ok {
					if _, err := fmt.Sscan(v, &total); err != nil {
						return nil, 0, fmt.Errorf("%q: %w", s, err)
					}
				}
			}
			continue
		}
		if s == "" {
			continue
		}
		var r row
		var dims, name string
		if _, err := fmt.Sscanf(s, "%d %d %x %g %g %s %s", &r.offset, &r.count, &r.seed, &r.lo, &r.hi, &dims, &name); err != nil {
			return nil, 0, fmt.Errorf("%q: %w", s, err)
		}
		rows = append(rows, r)
	}
	return rows, total, nil
}

func writeWeights(w io.Writer, rows []row, total int64) error {
	var pos int64
	pad := func(to int64) error {
		if to < pos {
			return fmt.Errorf("tensor at byte %d overlaps the one before it", to)
		}
		_, err := io.CopyN(w, zeros{}, to-pos)
		pos = to
		return err
	}
	buf := make([]byte, 0, 1<<16)
	for _, r := range rows {
		if err := pad(r.offset); err != nil {
			return err
		}
		for i := int64(0); i < r.count; {
			buf = buf[:0]
			for ; i < r.count && len(buf) < 1<<16; i++ {
				v := float32(r.lo + float64((r.hi-r.lo)*unit(r.seed, uint64(i)))) // product rounded before the sum
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		pos += 4 * r.count
	}
	return pad(total)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// unit returns number i of a seed's stream, in [0, 1): splitmix64 in counter form, its upper 24 bits.
func unit(seed, i uint64) float64 {
	z := seed + (i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	return float64(z>>40) * 0x1p-24
}
