package templates

import (
	"embed"
	"io/fs"
)

//go:embed config_file cluster_file
var configFiles embed.FS

// Configs holds the shipped config, threshold and cluster files, at the paths
// users name: config_file/inference/atom/<stem>.json and
// cluster_file/<name>.json. A config and the threshold file it names lie in the
// same folder.
func Configs() fs.FS { return configFiles }

// Roots lists the top folders of [Configs] in the order they are shown.
func Roots() []string { return []string{"config_file", "cluster_file"} }
