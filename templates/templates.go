// Package templates is the data that ships inside the program: configuration,
// threshold and cluster files, their JSON Schemas, and the page, style and
// scripts of the run deck.
//
// It holds no logic and knows nothing of what the files mean.
package templates

import (
	"embed"
	"io/fs"
	"slices"
)

//go:embed deck/*.tmpl deck/*.css deck/*.js deck/vendor/echarts
var deckFiles embed.FS

// Deck returns the files of the run deck: the templates (*.tmpl), deck.css,
// boot.js and vendor/echarts/echarts.common.min.js.
func Deck() fs.FS { return sub(deckFiles, "deck") }

//go:embed schema/sidecar.schema.json
var sidecarSchema []byte

// SidecarSchema returns the JSON Schema (draft 2020-12) of the JSON beside a
// deck.
func SidecarSchema() []byte { return slices.Clone(sidecarSchema) }

// sub cuts off a folder's name. It cannot fail for a name that is valid and
// written in this package.
func sub(f embed.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return s
}
