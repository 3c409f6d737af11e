module moldau/conformance/franz

go 1.24

require (
	github.com/twmb/franz-go v1.22.0
	github.com/twmb/franz-go/pkg/kadm v1.19.0
	moldau/conformance/jobs v0.0.0
)

replace moldau/conformance/jobs => ../jobs
