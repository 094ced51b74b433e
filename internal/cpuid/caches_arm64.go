package cpuid

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// caches reads what Linux says of the first core: programs may not ask the processor itself. Other systems say nothing here.
func caches() (list Caches) {
	for i := range 8 {
		field := func(name string) string {
			text, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, name)) // "" is no number and no kind
			return strings.TrimSpace(string(text))
		}
		level, err := strconv.Atoi(field("level"))
		if kind := field("type"); err != nil || level < 1 || level > len(list) || kind != "Data" && kind != "Unified" {
			continue
		}
		kilobytes, _ := strconv.Atoi(strings.TrimSuffix(field("size"), "K"))
		if 0 < kilobytes && kilobytes < 1<<24 {
			list[level-1] = Cache{Bytes: kilobytes << 10}
		}
	}
	return list
}
