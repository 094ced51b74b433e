package cli_test

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
)

func init() {
	backend.Register("fakepair", func(c backend.Config) (backend.Backend, error) {
		return fake.New(fake.Options{Name: c.Name, Devices: 2, Index: 40}), nil
	})
}

var _ = Describe("--backend with an index", func() {
	It("names a backend on one of its devices", func(ctx SpecContext) {
		path := save(ctx, affine())
		out := succeeds(ctx, "partition", path, "--backend", "fakepair:1,fakepair", "--device-memory", "device12:41=1MiB", "--json").stdout
		var r struct {
			Groups []struct{ Backend, Device string }
		}
		Expect(json.Unmarshal([]byte(out), &r)).To(Succeed())
		Expect(r.Groups).To(HaveLen(1))
		Expect(r.Groups[0]).To(And(HaveField("Backend", "fakepair:1"), HaveField("Device", "device12:41")))
		Expect(succeeds(ctx, "partition", path, "--backend", "fakepair:1").stdout).To(ContainSubstring("fakepair:1 on device12:41"))
		Expect(fails(ctx, "run", path, "--backend", "fakepair:2")).To(ContainSubstring(`no such device: "fakepair:2" of 2 that the backend has`))
		Expect(fails(ctx, "run", path, "--dim", "N=100000", "--backend", "fakepair:1", "--device-memory", "device12:41=1MiB")).To(
			And(ContainSubstring("--device-memory"), ContainSubstring("limit 1048576 on device12:41")))
	})
})
