package provider

// LeadsTo and SourceFor choose the provider for Open("auto").
var (
	LeadsTo   = leadsTo
	SourceFor = sourceFor
)
