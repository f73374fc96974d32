// A long csv is taught in parts. Each part's page sends the next by itself; without this, a click does.
document.getElementById("go-on")?.requestSubmit();
