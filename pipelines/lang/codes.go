package lang

// Code names one kind of finding and never changes its meaning: E is an error, W a warning, I an
// information. The first digit is the area: 0 the file, 1 its structure, 2 expressions, 3 the
// pipeline as a graph, 4 what is not built yet. check.Codes lists them all with their meaning.
type Code string

// The file as a whole.
const (
	// CodeSyntax: the text is not YAML.
	CodeSyntax Code = "E001"
	// CodeTooLarge: the file is above a limit of size, nesting, nodes or alias expansion.
	CodeTooLarge Code = "E002"
	// CodeEmpty: the file has no pipeline in it.
	CodeEmpty Code = "E003"
	// CodeDocuments: the file has more than one YAML document.
	CodeDocuments Code = "E004"
	// CodeMergeKey: a YAML merge key (<<) was used; repeat the keys instead.
	CodeMergeKey Code = "E005"
	// CodeReference: a ${…} reference is malformed, unknown, undefined or not allowed here.
	CodeReference Code = "E006"
	// CodeVarOverride: a value given with --var has no such variable or the wrong type.
	CodeVarOverride Code = "E007"
)

// The structure: keys and the types of values.
const (
	// CodeUnknownKey: the key does not exist here.
	CodeUnknownKey Code = "E101"
	// CodeMisplacedKey: the key exists, but belongs under another one.
	CodeMisplacedKey Code = "E102"
	// CodeDuplicateKey: the key occurs twice in one mapping.
	CodeDuplicateKey Code = "E103"
	// CodeMissingKey: a required key is missing.
	CodeMissingKey Code = "E104"
	// CodeWrongKind: a mapping, a list or a scalar was expected.
	CodeWrongKind Code = "E105"
	// CodeBadValue: the value is not one of those allowed or out of its range.
	CodeBadValue Code = "E106"
	// CodeBadDuration: not a duration such as 250ms, 30s, 5m, 1h or 1d.
	CodeBadDuration Code = "E107"
	// CodeBadSize: not a size in bytes such as 64KiB, 10MB or 1GiB.
	CodeBadSize Code = "E108"
	// CodeBadName: not a legal id, topic, pipeline or field name.
	CodeBadName Code = "E109"
	// CodeOperators: a step has no operator or more than one.
	CodeOperators Code = "E110"
	// CodeExclusive: keys that exclude each other are both there, or none of a choice is.
	CodeExclusive Code = "E111"
	// CodeVersion: the language version is missing or not one this program reads.
	CodeVersion Code = "E112"
	// CodeBadType: a schema's field type is not one of the known types.
	CodeBadType Code = "E113"
	// CodeUse: use: and the template it names do not fit together.
	CodeUse Code = "E114"
	// CodeUnusedTemplate: no step uses a template.
	CodeUnusedTemplate Code = "W115"
)

// What the grammar has, but this version cannot do.
const (
	// CodeNotYetKey: the key is part of the language but not supported yet.
	CodeNotYetKey Code = "E401"
	// CodeNotYetOperator: the operator is part of the language but not supported yet.
	CodeNotYetOperator Code = "E402"
	// CodeNotYetValue: the value is part of the language but not supported yet.
	CodeNotYetValue Code = "E403"
	// CodeNotYetWindow: the kind of window is part of the language but not supported yet.
	CodeNotYetWindow Code = "E404"
	// CodeNotYetAggregator: the aggregator is part of the language but not supported yet.
	CodeNotYetAggregator Code = "E405"
	// CodeNotYetFunction: the function is part of the language but not supported yet.
	CodeNotYetFunction Code = "E406"
)

// Expressions and templates, as far as they are seen while loading.
const (
	// CodeFolded: an expression is written as a folded block (>), which loses positions.
	CodeFolded Code = "E201"
	// CodeExprReference: ${…} inside an expression; use vars.name there.
	CodeExprReference Code = "E202"
	// CodeExprSyntax: the expression cannot be parsed.
	CodeExprSyntax Code = "E204"
	// CodeTemplate: a {{ … }} template is not closed or has an empty expression.
	CodeTemplate Code = "E213"
)
