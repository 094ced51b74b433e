package cpuid

import "golang.org/x/sys/windows"

// systemI8MM asks Windows, as package cpu does not.
func systemI8MM() bool {
	const present = 66 // PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("IsProcessorFeaturePresent")
	if proc.Find() != nil {
		return false
	}
	has, _, _ := proc.Call(present) // which does not fail
	return has != 0
}
