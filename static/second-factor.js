// Security keys: asks the browser for one and sends its answer with the form (django-allauth checks it).
// A form says data-webauthn="create" or "get", and in data-options what the server asks for.
'use strict'
document.querySelectorAll('form[data-webauthn]').forEach((form) => {
  const start = form.querySelector('[data-webauthn-start]')
  const trouble = form.querySelector('[data-webauthn-error]')
  // Without keys, or on a page that is not secure, the button would lead nowhere.
  if (!window.PublicKeyCredential || !window.webauthnJSON) return
  start.hidden = false
  start.addEventListener('click', async () => {
    trouble.hidden = true
    start.disabled = true
    try {
      const options = JSON.parse(form.dataset.options)
      const answer = await window.webauthnJSON[form.dataset.webauthn](options)
      form.querySelector('[name=credential]').value = JSON.stringify(answer)
      form.submit()
    } catch {
      trouble.hidden = false
      start.disabled = false
    }
  })
})
