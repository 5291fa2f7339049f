import forms


def test_draw():
    assert forms.draw("ab") == "######"
