package metadata

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a setting's value, with the numbers of DescribeConfigs.
type ConfigType int8

// The types in use.
const (
	Boolean  ConfigType = 1
	String   ConfigType = 2
	Int      ConfigType = 3
	Short    ConfigType = 4
	Long     ConfigType = 5
	Double   ConfigType = 6
	List     ConfigType = 7 // comma separated
	Class    ConfigType = 8
	Password ConfigType = 9
)

// ConfigDef defines a setting of topics or brokers.
type ConfigDef struct {
	Name    string
	Type    ConfigType
	Default string // "" where NoDefault is set, and for empty strings and lists
	Doc     string // for users
	// BrokerSynonyms of a topic setting are the broker settings that give its default, the first
	// that is set wins.
	BrokerSynonyms []string
	Enum           []string // allowed values, of each element for a List; nil = any
	Min, Max       float64  // bounds of a number, both included; both 0 = those of the type
	NoDefault      bool     // null unless set
	ReadOnly       bool     // a broker setting that only a restart changes
	Sensitive      bool     // never shown
	Hidden         bool     // accepted, not listed
	Inert          string   // why it is kept and shown but changes nothing; "" = it does
	// Check finds what is wrong with a normalized value beyond all of the above; "" = nothing.
	Check func(value string) string
}

// DisplayDoc returns Doc and, where the setting changes nothing, why that is so.
func (d *ConfigDef) DisplayDoc() string {
	if d.Inert == "" {
		return d.Doc
	}
	return d.Doc + " Kept and shown, but it changes nothing: " + d.Inert + "."
}

// Normalize returns a value as it is kept: without blanks around it or its elements, a number in
// its shortest form, a boolean in small letters. What does not parse stays as it is.
func (d *ConfigDef) Normalize(value string) string {
	trimmed := strings.TrimSpace(value)
	switch d.Type {
	case Boolean:
		return strings.ToLower(trimmed)
	case Int, Short, Long:
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
		return trimmed
	case Double, Class:
		return trimmed
	case List:
		elements := strings.Split(trimmed, ",")
		for i := range elements {
			elements[i] = strings.TrimSpace(elements[i])
		}
		return strings.Join(elements, ",")
	}
	return value
}

// Validate checks a value's form and range. The error is a *ConfigError.
func (d *ConfigDef) Validate(value string) error {
	if at, reason := d.fault(d.Normalize(value)); reason != "" {
		return &ConfigError{Name: d.Name, Reason: fmt.Sprintf(
			"Invalid value %s for configuration %s: %s", at, d.Name, reason)}
	}
	return nil
}

// fault returns what is wrong with a normalized value, or "", and the part of it where that is.
func (d *ConfigDef) fault(value string) (at, reason string) {
	at = value
	switch d.Type {
	case Boolean:
		if value != "true" && value != "false" {
			reason = "Expected value to be either true or false"
		}
	case Int, Short, Long, Double:
		at, reason = d.checkNumber(value)
	case List:
		at, reason = d.checkElements(value)
	default:
		if d.Enum != nil && !slices.Contains(d.Enum, value) {
			reason = "String must be one of: " + strings.Join(d.Enum, ", ")
		}
	}
	if reason == "" && d.Check != nil {
		reason = d.Check(value)
	}
	return at, reason
}

// checkElements returns what is wrong with a list, or "". The empty list is none of its elements'
// fault.
func (d *ConfigDef) checkElements(value string) (at, reason string) {
	if value == "" {
		return value, ""
	}
	for element := range strings.SplitSeq(value, ",") {
		switch {
		case element == "":
			return value, "a list has no empty elements"
		case d.Enum != nil && !slices.Contains(d.Enum, element):
			return element, "String must be one of: " + strings.Join(d.Enum, ", ")
		}
	}
	return value, ""
}

// numberTypes are the names that Kafka has for the types of numbers.
var numberTypes = map[ConfigType]string{Short: "SHORT", Int: "INT", Long: "LONG", Double: "DOUBLE"}

// checkNumber returns what is wrong with a number, or "", and the number as Kafka prints it.
func (d *ConfigDef) checkNumber(value string) (at, reason string) {
	var number float64
	if d.Type == Double {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(n) {
			return value, "Not a number of type " + numberTypes[d.Type]
		}
		if number = n; n == math.Trunc(n) && math.Abs(n) < 1e7 {
			value = strconv.FormatFloat(n, 'f', 1, 64)
		}
	} else {
		bits := map[ConfigType]int{Short: 16, Int: 32, Long: 64}[d.Type]
		n, err := strconv.ParseInt(value, 10, bits)
		if err != nil {
			return value, "Not a number of type " + numberTypes[d.Type]
		}
		number = float64(n)
	}
	switch {
	case d.Min == 0 && d.Max == 0:
	case number < d.Min:
		return value, "Value must be at least " + strconv.FormatFloat(d.Min, 'f', -1, 64)
	case number > d.Max:
		return value, "Value must be no more than " + strconv.FormatFloat(d.Max, 'f', -1, 64)
	}
	return value, ""
}
