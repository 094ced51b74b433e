package cuda

// Architecture is architecture.
var Architecture = architecture
