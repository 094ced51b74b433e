package plugin_test

import (
	"runtime"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin"
	"github.com/carve-dev/carve/internal/dl"
)

var _ = Describe("a platform that cannot", func() {
	It("open libraries says so", func(ctx SpecContext) {
		if dl.Supported {
			Skip("libraries can be opened here")
		}
		_, err := plugin.Open("stub_test.go")
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(dl.ErrUnsupported))
		m := relu()
		defer m.Close()
		_, err = carve.Compile(ctx, m, &carve.Options{Plugins: []string{"stub_test.go"}})
		Expect(err).To(MatchError(dl.ErrUnsupported))
		Expect(err).To(MatchError(ContainSubstring("stub_test.go")))
	})

	It("run plugins in processes of their own says so", func(ctx SpecContext) {
		if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
			Skip("it can be done here")
		}
		_, err := plugin.OpenOutOfProcess("stub_test.go", nil)
		Expect(err).To(MatchError(backend.ErrUnavailable))
		Expect(err).To(MatchError(plugin.ErrOutOfProcess))
		m := relu()
		defer m.Close()
		_, err = carve.Compile(ctx, m, &carve.Options{Plugins: []string{"stub_test.go"}, PluginOptions: map[string]string{"out-of-process": "true"}})
		Expect(err).To(MatchError(plugin.ErrOutOfProcess))
		Expect(err).To(MatchError(ContainSubstring("stub_test.go")))
	})
})
