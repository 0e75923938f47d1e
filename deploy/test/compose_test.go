package test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"
)

func loadCompose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context()) // checks the schema, and that what is referred to is there
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	for name, service := range project.Services {
		program := map[string]string{"a2a-taskstore": store, "a2a-taskstore-demo-agent": demo}[service.Image]
		if program == "" {
			continue
		}
		args := slices.Clone([]string(service.Command))
		if program == demo {
			args = append([]string{"agent"}, args...) // the image's entrypoint
		}
		checkCommand(t, program, args, keys(service.Environment))
		if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") {
			t.Errorf("%s may write, or has capabilities", name)
		}
		if len(service.Ports) > 0 {
			t.Errorf("%s can be reached from outside", name)
		}
		if args[0] == "serve" {
			drain := flagDuration(t, args, "--drain-delay") + flagDuration(t, args, "--drain-timeout")
			if service.StopGracePeriod == nil || time.Duration(*service.StopGracePeriod) <= drain {
				t.Errorf("%s is killed while it drains", name)
			}
		}
		for _, path := range secretPaths(service) {
			if !slices.ContainsFunc(service.Secrets, func(s types.ServiceSecretConfig) bool { return s.Source == filepath.Base(path) }) {
				t.Errorf("%s has no secret for %s", name, path)
			}
		}
	}
	if len(project.Services) != 9 {
		t.Errorf("%d services", len(project.Services))
	}
}

// What the services are told about each other is there: hosts of the proxy and of Prometheus, files that are mounted.
func TestComposeFilesFitTogether(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	for _, service := range project.Services {
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				if _, err := os.Stat(volume.Source); err != nil {
					t.Errorf("%s mounts what is not there: %v", service.Name, err)
				}
			}
		}
	}
	var prometheus struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct {
				Targets []string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(read(t, "compose/prometheus.yaml"), &prometheus); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, config := range prometheus.ScrapeConfigs {
		for _, static := range config.StaticConfigs {
			hosts = append(hosts, static.Targets...)
		}
	}
	for _, m := range regexp.MustCompile(`server (\S+:\d+);`).FindAllStringSubmatch(string(read(t, "compose/nginx.conf")), -1) {
		hosts = append(hosts, m[1])
	}
	if len(hosts) != 4 {
		t.Errorf("hosts %v", hosts)
	}
	for _, hostport := range hosts {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			t.Fatal(err)
		}
		service, ok := project.Services[host]
		if !ok || !slices.ContainsFunc([]string(service.Command), func(arg string) bool { return strings.HasSuffix(arg, "listen=:"+port) }) {
			t.Errorf("nobody listens on %s", hostport)
		}
	}
}

// The script makes every secret that the services mount, for them to read.
func TestComposeCredentials(t *testing.T) {
	t.Parallel()
	project := loadCompose(t)
	dir := makeSecrets(t)
	for name, secret := range project.Secrets {
		path := filepath.Join(dir, filepath.Base(secret.File))
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			t.Errorf("secret %s: %v", name, err)
			continue
		}
		// Mounted with the mode that it has; the services run as another user.
		if info.Mode().Perm()&0o004 == 0 {
			t.Errorf("secret %s cannot be read by the services: mode %s", name, info.Mode())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the secrets is open to others: %v, %v", info.Mode(), err)
	}
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// secretPaths are the paths under /run/secrets that a service is told.
func secretPaths(service types.ServiceConfig) []string {
	var out []string
	told := slices.Clone([]string(service.Command))
	for _, value := range service.Environment {
		if value != nil {
			told = append(told, *value)
		}
	}
	for _, s := range told {
		if _, path, ok := strings.Cut(s, "/run/secrets/"); ok {
			out = append(out, "/run/secrets/"+path)
		}
	}
	return out
}

// flagDuration is the value of a flag, 0 without it.
func flagDuration(t *testing.T, args []string, flag string) time.Duration {
	t.Helper()
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	return 0
}
